//! Removes a member: fence it if forced and its node is unreachable · drain it, unless it is drained or this is forced ·
//! withdraw it through the adapter · verify · destroy its cell · wipe and release the allocation made for it · verify that
//! nothing is left.

use futures::future::BoxFuture;
use muster_db::Result;
use muster_ids::{MemberId, TypedId as _};
use muster_model::operation::OperationState;

use super::destroy_cell::DESTROY_CELL;
use super::drain_step::DRAIN_STEP;
use super::fence::FENCE_IF_FORCED;
use super::finalize::FINALIZE;
use super::release::RELEASE;
use super::verify_drained::VERIFY_DRAINED;
use super::verify_withdrawn::VERIFY_WITHDRAWN;
use super::withdraw::WITHDRAW;
use crate::StepAction;
use crate::bulk_cleanup::{Intent, settle_members};
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};

/// `member.remove`. It cannot be rolled back: a stuck removal is blocked, or superseded by a forced one.
pub const REMOVE: Definition = Definition {
    kind: "member.remove",
    steps: &[
        FENCE_IF_FORCED,
        DRAIN_STEP,
        VERIFY_DRAINED,
        WITHDRAW,
        VERIFY_WITHDRAWN,
        DESTROY_CELL,
        RELEASE,
        FINALIZE,
    ],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle,
};

/// A removal that never started removed no member: the desired count is restored. The parent does the counting for its
/// children.
fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<StepAction>> {
    let meant = match cx.operation.parent_id {
        None => vec![(MemberId::from_uuid(cx.operation.subject_id), Intent::Remove)],
        Some(_) => Vec::new(),
    };
    settle_members(cx, state, meant)
}
