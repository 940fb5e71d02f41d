//! Moves one member to another release: pull the image · drain · recreate its cell from that release · join · verify ·
//! publish. A child of an instance's upgrade or rollback, which names the release.

use super::drain_step::DRAIN_STEP;
use super::join::JOIN;
use super::provision::PROVISION;
use super::publish::PUBLISH;
use super::pull_image::PULL_IMAGE;
use super::verify_active::VERIFY_ACTIVE;
use super::verify_drained::VERIFY_DRAINED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `member.upgrade`. A failure blocks it: the way back is a rollback of the instance.
pub const UPGRADE: Definition = Definition {
    kind: OperationKind::MemberUpgrade,
    steps: &[PULL_IMAGE, DRAIN_STEP, VERIFY_DRAINED, PROVISION, JOIN, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: nothing_to_settle,
};
