//! Resizes in place: claim the growth (undo: release it) · stop the cells, if the GPUs change and that was requested (undo:
//! start them) · apply on the node (undo: apply the old size) · wipe and release the surplus · verify · start the cells
//! again.

use super::apply::APPLY;
use super::grow::GROW;
use super::shrink::SHRINK;
use super::start_cells::START_CELLS;
use super::stop_cells::STOP_CELLS;
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `allocation.resize`. Released resources may already belong to another allocation, so that step is the point of no return.
pub const RESIZE: Definition = Definition {
    kind: OperationKind::AllocationResize,
    steps: &[GROW, STOP_CELLS, APPLY, SHRINK, VERIFY_ACTIVE, START_CELLS],
    on_failure: OnFailure::Undo,
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: Some("shrink"),
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: nothing_to_settle,
};
