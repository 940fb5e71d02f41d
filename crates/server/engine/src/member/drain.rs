//! Draining a member: the adapter takes it out of work (−puts it back) · verify that it is drained.

use super::add::PARKS;
use super::take_out::TAKE_OUT;
use super::verify_drained::VERIFY_DRAINED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `member.drain`.
pub const DRAIN: Definition = Definition {
    kind: "member.drain",
    steps: &[TAKE_OUT, VERIFY_DRAINED],
    on_failure: OnFailure::ParkFor(PARKS),
    at_deadline: AtDeadline::Park,
    cancellable: true,
    no_return: Some("verify_drained"),
    abandon: Abandon::Undo,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
