//! Replacing a member: cut it off if nobody hears from its node · the new one comes and the old one goes, in the order that its
//! component declares.

use super::add::PARKS;
use super::fence::FENCE;
use super::swap::{FIRST, SECOND, settle};
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure};

/// `member.replace`.
pub const REPLACE: Definition = Definition {
    kind: "member.replace",
    steps: &[FENCE, FIRST, SECOND],
    on_failure: OnFailure::ParkFor(PARKS),
    at_deadline: AtDeadline::Park,
    cancellable: true,
    no_return: Some("first"),
    abandon: Abandon::Undo,
    unblock_by: "tenant",
    settle,
};
