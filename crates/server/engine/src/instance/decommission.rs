//! Decommissions an instance: remove its members · remove their shared directories · verify that nothing is left.

use super::stop::STOP;
use super::unshare::UNSHARE;
use super::verify_stopped::VERIFY_STOPPED;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `instance.decommission`. It cannot be rolled back: a stuck one is blocked.
pub const DECOMMISSION: Definition = Definition {
    kind: "instance.decommission",
    steps: &[STOP, UNSHARE, VERIFY_STOPPED],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: nothing_to_settle,
};
