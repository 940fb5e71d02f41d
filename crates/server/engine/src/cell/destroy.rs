//! Destroys a cell: keep logs · destroy · verify that nothing is left.

use super::destroy_cell::DESTROY_CELL;
use super::keep_logs::KEEP_LOGS;
use super::verify_destroyed::VERIFY_DESTROYED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `cell.destroy`. It cannot be rolled back: a stuck one is blocked. The release of its allocation also destroys it.
pub const DESTROY: Definition = Definition {
    kind: OperationKind::CellDestroy,
    steps: &[KEEP_LOGS, DESTROY_CELL, VERIFY_DESTROYED],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "operator",
    settle: nothing_to_settle,
};
