//! Replaces a member: reserve capacity for the successor (undo: release it) · fence the old one if its node is unreachable ·
//! add the new one and remove the old one, in the order that the component declares. Without capacity it fails in its first
//! step, with the old member untouched.

use muster_model::operation::OperationKind;

use super::add::BLOCKS;
use super::fence::FENCE;
use super::reserve::RESERVE;
use super::swap::{SWAP_BEGIN, SWAP_FINISH, settle};
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure};

/// `member.replace`.
pub const REPLACE: Definition = Definition {
    kind: OperationKind::MemberReplace,
    steps: &[RESERVE, FENCE, SWAP_BEGIN, SWAP_FINISH],
    on_failure: OnFailure::BlockFor(BLOCKS),
    at_deadline: AtDeadline::Block,
    cancellable: true,
    no_return: Some("swap_begin"),
    abandon: Abandon::Undo,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};
