//! Replacing a member: reserve room for the successor (−release it) · cut the old one off if its node is unreachable · the new
//! one comes and the old one goes, in the order that its component declares. Where there is no room it fails in its first step,
//! with nothing of the old one touched.

use super::add::PARKS;
use super::fence::FENCE;
use super::reserve::RESERVE;
use super::swap::{FIRST, SECOND, settle};
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure};

/// `member.replace`.
pub const REPLACE: Definition = Definition {
    kind: "member.replace",
    steps: &[RESERVE, FENCE, FIRST, SECOND],
    on_failure: OnFailure::ParkFor(PARKS),
    at_deadline: AtDeadline::Park,
    cancellable: true,
    no_return: Some("first"),
    abandon: Abandon::Undo,
    unblock_by: "tenant",
    settle,
};
