//! Retiring a node: see that nothing of ours is left on it · sign it off. From then on its certificate opens nothing.

use super::sign_off::SIGN_OFF;
use super::survey::SURVEY;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `node.retire`.
pub const RETIRE: Definition = Definition {
    kind: "node.retire",
    steps: &[SURVEY, SIGN_OFF],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: true,
    no_return: Some("sign_off"),
    abandon: Abandon::Undo,
    unblock_by: "operator",
    settle: nothing_to_settle,
};
