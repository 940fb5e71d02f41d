//! Resizing in place: hold what is added (−give it back) · stop the cells, if its GPUs change and that was asked for (−start them) ·
//! have the node apply it (−apply the old size) · wipe and give back what is removed · verify · start the cells again.

use super::apply::APPLY;
use super::grow::GROW;
use super::shrink::SHRINK;
use super::start_cells::START_CELLS;
use super::stop_cells::STOP_CELLS;
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `allocation.resize`. What was given back may belong to somebody else already, so after that there is no way back.
pub const RESIZE: Definition = Definition {
    kind: "allocation.resize",
    steps: &[GROW, STOP_CELLS, APPLY, SHRINK, VERIFY_ACTIVE, START_CELLS],
    on_failure: OnFailure::Undo,
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: Some("shrink"),
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
