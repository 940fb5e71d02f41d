//! Recreates a cell in place: keep logs · destroy · verify that it is gone · provision · connect · verify. Its state
//! directories, name and address stay.

use super::connect::CONNECT;
use super::destroy_cell::DESTROY_CELL;
use super::keep_logs::KEEP_LOGS;
use super::provision::PROVISION;
use super::verify_destroyed::VERIFY_DESTROYED;
use super::verify_running::VERIFY_RUNNING;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};
use muster_model::operation::OperationKind;

/// `cell.restart`. A cell that does not become ready again is left for its owner to inspect: blocked.
pub const RESTART: Definition = Definition {
    kind: OperationKind::CellRestart,
    steps: &[KEEP_LOGS, DESTROY_CELL, VERIFY_DESTROYED, PROVISION, CONNECT, VERIFY_RUNNING],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: nothing_to_settle,
};
