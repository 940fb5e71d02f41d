//! Making a cell anew in its place: keep logs · destroy · see that it is gone · provision · connect · verify. Its state
//! directories, its name and its address stay.

use super::connect::CONNECT;
use super::keep_logs::KEEP_LOGS;
use super::provision::PROVISION;
use super::take_down::TAKE_DOWN;
use super::verify_gone::VERIFY_GONE;
use super::verify_running::VERIFY_RUNNING;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `cell.restart`. One that does not become ready again is left as it is, so that its owner can look into it: parked.
pub const RESTART: Definition = Definition {
    kind: "cell.restart",
    steps: &[KEEP_LOGS, TAKE_DOWN, VERIFY_GONE, PROVISION, CONNECT, VERIFY_RUNNING],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
