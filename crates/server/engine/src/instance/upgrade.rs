//! Having an instance run another release: it is written down · member after member is made anew · all of it is seen to run.

use super::prepare::PREPARE;
use super::roll::ROLL;
use super::verify_running::VERIFY_RUNNING;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `instance.upgrade`. What fails is parked; a rollback takes over from it.
pub const UPGRADE: Definition = Definition {
    kind: "instance.upgrade",
    steps: &[PREPARE, ROLL, VERIFY_RUNNING],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
