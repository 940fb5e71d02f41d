//! Recreates a failed member in place: the same steps as adding it, in the same allocation if it still has one, with a new
//! incarnation.

use muster_model::operation::OperationKind;

use super::add::{BLOCKS, settle};
use super::claim::CLAIM;
use super::join::JOIN;
use super::provision::PROVISION;
use super::publish::PUBLISH;
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure};

/// `member.recover`.
pub const RECOVER: Definition = Definition {
    kind: OperationKind::MemberRecover,
    steps: &[CLAIM, PROVISION, JOIN, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::BlockFor(BLOCKS),
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: Some("verify_active"),
    abandon: Abandon::Undo,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};
