//! Restarts in place: stop the cells · destroy · verify that it is gone · increment the incarnation · prepare · verify ·
//! start the cells again. Nothing is released or wiped, because it stays with its owner.

use super::destroy::DESTROY;
use super::prepare::PREPARE;
use super::reincarnate::REINCARNATE;
use super::start_cells::START_CELLS;
use super::stop_cells::STOP_CELLS;
use super::verify_active::VERIFY_ACTIVE;
use super::verify_destroyed::VERIFY_DESTROYED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `allocation.restart`. A sandbox that cannot be recreated is not taken from its owner: the operation is blocked, and can
/// be retried or the allocation released.
pub const RESTART: Definition = Definition {
    kind: OperationKind::AllocationRestart,
    steps: &[STOP_CELLS, DESTROY, VERIFY_DESTROYED, REINCARNATE, PREPARE, VERIFY_ACTIVE, START_CELLS],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: nothing_to_settle,
};
