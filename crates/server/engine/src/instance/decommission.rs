//! Taking an instance down, honestly: its members are removed · what they shared is removed · nothing of it is seen to be left.

use super::stop::STOP;
use super::unshare::UNSHARE;
use super::verify_stopped::VERIFY_STOPPED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `instance.decommission`. There is no way back from it: what cannot go on is parked.
pub const DECOMMISSION: Definition = Definition {
    kind: "instance.decommission",
    steps: &[STOP, UNSHARE, VERIFY_STOPPED],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
