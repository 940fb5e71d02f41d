//! Adds a member: claim (undo: release) · provision its cell (undo: destroy) · join through the adapter (undo: leave) ·
//! verify · publish.

use jiff::Timestamp;
use muster_db::{Result, StoreError, Tx};
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationKind, OperationState};
use serde_json::json;

use super::claim::CLAIM;
use super::join::JOIN;
use super::provision::{PROVISION, failure_of};
use super::publish::PUBLISH;
use super::reserve::release_reserved;
use super::subject::{path, subject};
use super::verify_active::VERIFY_ACTIVE;
use crate::bulk_cleanup::already_uncounted;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{Effects, StepAction, StepOutcome};

/// An unverified member may or may not work: an operator or the tenant decides.
pub(super) const BLOCKS: &[&str] = &["not_witnessed"];

/// `member.add`.
pub const ADD: Definition = Definition {
    kind: OperationKind::MemberAdd,
    steps: &[CLAIM, PROVISION, JOIN, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::BlockFor(BLOCKS),
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: Some("verify_active"),
    abandon: Abandon::Undo,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// Fails a member that did not become active, with the reason. A member that never worked lowers the desired count, unless
/// it was a replacement and never counted in addition, or a removal has already uncounted it.
pub(super) async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let member = subject(cx).await?;
    let under_way =
        matches!(member.state, MemberState::Requested | MemberState::Provisioning | MemberState::Joining);
    if state == OperationState::Succeeded {
        return Ok(StepOutcome::done().into());
    }
    let replace = replaced_for(cx, &member).await?;
    if !under_way && replace.is_none() {
        return Ok(StepOutcome::done().into());
    }
    let lowers = member.active_witness_id.is_none() && cx.operation.input.replaces.is_none();
    let reason = match state {
        OperationState::Cancelled => MemberFailure::Cancelled,
        _ => failure_of(cx).await?,
    };
    let message = cx.operation.message.clone();
    let (now, timing, env) = (cx.now, *cx.timing, cx.env.clone());
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            // A continuing replacement keeps the reservation and releases it itself. A superseded one cannot.
            let mut member = member;
            if let Some(replace) = replace
                && tx.operation_now(replace.id).await?.is_none()
            {
                release_reserved(tx, &env, &member, &replace, &timing, now).await?;
                let moved = tx.member_now(member.id).await?;
                member = moved.ok_or(StoreError::Gone("member".to_owned()))?;
            }
            if !under_way {
                return Ok(StepOutcome::done());
            }
            let after = Member {
                state: MemberState::Failed,
                failure_reason: Some(reason),
                message,
                ..member.clone()
            };
            let lowers = lowers && !already_uncounted(tx, &member).await?;
            tx.member_move(&member, &after, now).await?;
            if lowers {
                tx.component_change_desired(member.instance_id, &member.component_key, -1, 0).await?;
            }
            let data = json!({"name": member.name, "component_key": member.component_key, "reason": reason,
                              "advice": reason.advice()});
            effects.events.push((EventType::MemberFailed, path(&after), data));
            Ok(StepOutcome::done())
        })
    }))
}

/// Returns the replacement that reserved the allocation of a member that never worked, if any.
async fn replaced_for(cx: &StepCx<'_>, member: &Member) -> Result<Option<Operation>> {
    let reserved = member.allocation_made && member.active_witness_id.is_none();
    let Some(id) = cx.operation.parent_id.filter(|_| reserved && cx.operation.input.replaces.is_some())
    else {
        return Ok(None);
    };
    cx.store.operation_lookup(id).await
}

/// Fails a requested member that was never started.
pub(crate) async fn fail_unstarted(
    tx: &mut Tx,
    effects: &mut Effects,
    member: Member,
    state: OperationState,
    message: Option<String>,
    now: Timestamp,
) -> Result<()> {
    let reason = match state {
        OperationState::Cancelled => MemberFailure::Cancelled,
        _ => MemberFailure::ProvisionFailed,
    };
    let after =
        Member { state: MemberState::Failed, failure_reason: Some(reason), message, ..member.clone() };
    tx.member_move(&member, &after, now).await?;
    let data = json!({"name": member.name, "component_key": member.component_key, "reason": reason,
                      "advice": reason.advice()});
    effects.events.push((EventType::MemberFailed, path(&after), data));
    Ok(())
}
