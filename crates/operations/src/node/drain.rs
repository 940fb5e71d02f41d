//! Emptying a node: keep new work away (−let it in again) · wait until nothing is left, or release it at the deadline.

use super::cordon::CORDON;
use super::empty::EMPTY;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `node.drain`.
pub const DRAIN: Definition = Definition {
    kind: "node.drain",
    steps: &[CORDON, EMPTY],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Step,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Undo,
    unblock_by: "operator",
    settle: nothing_to_settle,
};
