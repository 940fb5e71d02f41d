//! Having one member run another release: image pulled · out of work · its cell is made anew, of that release · joined · verified ·
//! published.
//! A part of an instance's upgrade or rollback, which says which release.

use super::join::JOIN;
use super::provision::PROVISION;
use super::publish::PUBLISH;
use super::pull_image::PULL_IMAGE;
use super::take_out::TAKE_OUT;
use super::verify_active::VERIFY_ACTIVE;
use super::verify_drained::VERIFY_DRAINED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `member.upgrade`. What fails is parked: the way back is a rollback of the instance.
pub const UPGRADE: Definition = Definition {
    kind: "member.upgrade",
    steps: &[PULL_IMAGE, TAKE_OUT, VERIFY_DRAINED, PROVISION, JOIN, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
