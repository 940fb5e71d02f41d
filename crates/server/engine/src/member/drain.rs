//! Drains a member: the adapter drains it (undo: resumes it) · verify that it is drained.

use super::add::BLOCKS;
use super::drain_step::DRAIN_STEP;
use super::verify_drained::VERIFY_DRAINED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `member.drain`.
pub const DRAIN: Definition = Definition {
    kind: OperationKind::MemberDrain,
    steps: &[DRAIN_STEP, VERIFY_DRAINED],
    on_failure: OnFailure::BlockFor(BLOCKS),
    at_deadline: AtDeadline::Block,
    cancellable: true,
    no_return: Some("verify_drained"),
    abandon: Abandon::Undo,
    resolvable_by: "tenant",
    settle: nothing_to_settle,
};
