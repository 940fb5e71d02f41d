//! Removing a member: cut it off, if that is forced and nobody hears from its node · drain it, unless it is drained or that is
//! forced · the adapter forgets it · verify · destroy its cell · wipe and release what was made for it · see that nothing is left.

use futures::future::BoxFuture;
use muster_db::Result;
use muster_ids::{MemberId, TypedId as _};
use muster_model::operation::OperationState;

use super::conclude::CONCLUDE;
use super::fence::FENCE_IF_FORCED;
use super::release::RELEASE;
use super::take_down::TAKE_DOWN;
use super::take_out::TAKE_OUT;
use super::verify_drained::VERIFY_DRAINED;
use super::verify_withdrawn::VERIFY_WITHDRAWN;
use super::withdraw::WITHDRAW;
use crate::Act;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::remainder::{Meant, settle_members};

/// `member.remove`. There is no way back from it: what cannot go on is parked, or taken over by one that is forced.
pub const REMOVE: Definition = Definition {
    kind: "member.remove",
    steps: &[
        FENCE_IF_FORCED,
        TAKE_OUT,
        VERIFY_DRAINED,
        WITHDRAW,
        VERIFY_WITHDRAWN,
        TAKE_DOWN,
        RELEASE,
        CONCLUDE,
    ],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle,
};

/// One whose turn never came removed nobody: its component wants what it wanted. Parts are counted by what they are a part of.
fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<Act>> {
    let meant = match cx.operation.parent_id {
        None => vec![(MemberId::from_uuid(cx.operation.subject_id), Meant::Remove)],
        Some(_) => Vec::new(),
    };
    settle_members(cx, state, meant)
}
