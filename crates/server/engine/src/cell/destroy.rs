//! Destroying a cell, honestly: keep logs · take it down · see that nothing of it is left.

use super::keep_logs::KEEP_LOGS;
use super::take_down::TAKE_DOWN;
use super::verify_gone::VERIFY_GONE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `cell.destroy`. There is no way back from it: what cannot go on is parked. Releasing its allocation takes it along.
pub const DESTROY: Definition = Definition {
    kind: "cell.destroy",
    steps: &[KEEP_LOGS, TAKE_DOWN, VERIFY_GONE],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "operator",
    settle: nothing_to_settle,
};
