//! Restarting in place: stop the cells in it · destroy · verify that it is gone · raise the incarnation · prepare · verify · start
//! the cells again. Nothing is given back, and nothing is wiped, because it stays with its owner.

use super::destroy::DESTROY;
use super::prepare::PREPARE;
use super::reincarnate::REINCARNATE;
use super::start_cells::START_CELLS;
use super::stop_cells::STOP_CELLS;
use super::verify_active::VERIFY_ACTIVE;
use super::verify_gone::VERIFY_GONE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `allocation.restart`. A place that cannot be made again is not taken away from its owner: it is parked, and can be
/// tried again or released.
pub const RESTART: Definition = Definition {
    kind: "allocation.restart",
    steps: &[STOP_CELLS, DESTROY, VERIFY_GONE, REINCARNATE, PREPARE, VERIFY_ACTIVE, START_CELLS],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
