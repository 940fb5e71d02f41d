//! Comparing a node with what is written of it, both ways: look · mend what can be mended, if that was asked for.

use super::compare::COMPARE;
use super::mend::MEND;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `node.audit`. It ends well when everything is known that there is to know; what it found is in its messages and evidence.
pub const AUDIT: Definition = Definition {
    kind: "node.audit",
    steps: &[COMPARE, MEND],
    on_failure: OnFailure::Undo,
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Undo,
    unblock_by: "operator",
    settle: nothing_to_settle,
};
