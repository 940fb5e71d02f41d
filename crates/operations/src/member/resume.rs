//! Putting a drained member back to work: the adapter puts it back · verify that it works · publish.

use super::publish::PUBLISH;
use super::put_back::PUT_BACK;
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `member.resume`.
pub const RESUME: Definition = Definition {
    kind: "member.resume",
    steps: &[PUT_BACK, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
