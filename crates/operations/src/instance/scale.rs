//! Changing how many members an instance has: those that are wanted more are added, then those that are wanted no more removed.

use super::grow::GROW;
use super::shrink::SHRINK;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `instance.scale`.
pub const SCALE: Definition = Definition {
    kind: "instance.scale",
    steps: &[GROW, SHRINK],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
