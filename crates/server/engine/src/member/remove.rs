//! Removes a member: fence it if forced and its node is unreachable · drain it, unless it is drained or this is forced ·
//! withdraw it through the adapter · verify · destroy its cell · wipe and release the allocation made for it · verify that
//! nothing is left. A forced one ends before the destruction if the node is unreachable, and leaves the rest in quarantine.

use muster_db::Result;
use muster_ids::{MemberId, TypedId as _};
use muster_model::member::Member;
use muster_model::operation::{OperationKind, OperationState};

use super::destroy_cell::DESTROY_CELL;
use super::drain_step::DRAIN_STEP;
use super::fence::FENCE_IF_FORCED;
use super::finalize::FINALIZE;
use super::quarantine::hand_over;
use super::release::RELEASE;
use super::subject::subject;
use super::verify_drained::VERIFY_DRAINED;
use super::verify_withdrawn::VERIFY_WITHDRAWN;
use super::withdraw::WITHDRAW;
use crate::bulk_cleanup::{Intent, settle_members};
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::step_outcome::QUARANTINED;
use crate::{StepAction, StepOutcome};

/// `member.remove`. It cannot be rolled back: a stuck removal is blocked, or superseded by a forced one.
pub const REMOVE: Definition = Definition {
    kind: OperationKind::MemberRemove,
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
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// A removal that never started removed no member: the desired count is restored. The parent does the counting for its
/// children. What a forced removal left on an unreachable node is handed over to the platform. A member that joined only after its removal was accepted is subtracted now.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    if cx.operation.reason.as_deref() == Some(QUARANTINED) && state == OperationState::Partial {
        return hand_over(cx).await;
    }
    if state == OperationState::Succeeded {
        return subtract_uncounted(cx, subject(cx).await?);
    }
    let meant = match cx.operation.parent_id {
        None => vec![(MemberId::from_uuid(cx.operation.subject_id), Intent::Remove)],
        Some(_) => Vec::new(),
    };
    settle_members(cx, state, meant).await
}

fn subtract_uncounted(cx: &StepCx<'_>, member: Member) -> Result<StepAction> {
    let listed = cx.operation.input.uncounted.contains(&member.id);
    if !listed || member.active_witness_id.is_none() {
        return Ok(StepOutcome::done().into());
    }
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.component_change_desired(member.instance_id, &member.component_key, -1, 0).await?;
            Ok(StepOutcome::done())
        })
    }))
}
