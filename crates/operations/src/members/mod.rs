//! The operations on several members at once. Each member has an operation of its own; these open them and wait for them.

mod each;

use each::EACH;

use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// Where some did what they were for and others did not, somebody decides; where none did, it is over.
const PARKS: &[&str] = &["some_failed"];

const fn of(kind: &'static str) -> Definition {
    Definition {
        kind,
        steps: &[EACH],
        on_failure: OnFailure::ParkFor(PARKS),
        at_deadline: AtDeadline::Park,
        cancellable: true,
        no_return: None,
        abandon: Abandon::Never,
        unblock_by: "tenant",
        settle: nothing_to_settle,
    }
}

/// `members.add`.
pub const ADD: Definition = of("members.add");
/// `members.drain`.
pub const DRAIN: Definition = of("members.drain");
/// `members.resume`.
pub const RESUME: Definition = of("members.resume");
/// `members.remove`.
pub const REMOVE: Definition = of("members.remove");
/// `members.replace`.
pub const REPLACE: Definition = of("members.replace");
/// `members.recover`.
pub const RECOVER: Definition = of("members.recover");
