//! Adding a member: claim (−release) · provision its cell (−destroy) · the adapter joins it (−leaves) · verify · publish.

use futures::future::BoxFuture;
use jiff::Timestamp;
use muster_db::{Result, StoreError, Tx};
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationState};
use serde_json::json;

use super::claim::CLAIM;
use super::join::JOIN;
use super::provision::PROVISION;
use super::publish::PUBLISH;
use super::reserve::release_reserved;
use super::subject::{path, subject};
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::remainder::counted_out;
use crate::{Act, Told, Verdict};

/// What nobody could see may be there or not: that is for a person to decide.
pub(super) const PARKS: &[&str] = &["not_witnessed"];

/// `member.add`.
pub const ADD: Definition = Definition {
    kind: "member.add",
    steps: &[CLAIM, PROVISION, JOIN, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::ParkFor(PARKS),
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: Some("verify_active"),
    abandon: Abandon::Undo,
    unblock_by: "tenant",
    settle,
};

/// What did not come to work is failed, with the reason. One that never worked counts no more: its component wants one less,
/// unless it was to take another's place and was never wanted beside it, or somebody removes it and has counted it out.
pub(super) fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let member = subject(cx).await?;
        let under_way =
            matches!(member.state, MemberState::Requested | MemberState::Provisioning | MemberState::Joining);
        if state == OperationState::Succeeded {
            return Ok(Verdict::done().into());
        }
        let replace = replaced_for(cx, &member).await?;
        if !under_way && replace.is_none() {
            return Ok(Verdict::done().into());
        }
        let lowers = member.active_witness_id.is_none() && cx.operation.input["replaces"].is_null();
        let reason = match state {
            OperationState::Cancelled => MemberFailure::Cancelled,
            _ => cx
                .operation
                .reason
                .as_deref()
                .and_then(MemberFailure::parse)
                .unwrap_or(MemberFailure::ProvisionFailed),
        };
        let message = cx.operation.message.clone();
        let (now, timing, world) = (cx.now, *cx.timing, cx.world.clone());
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                // A replacement that goes on keeps the room, and releases it itself. One that was superseded cannot.
                let mut member = member;
                if let Some(replace) = replace
                    && tx.operation_now(replace.id).await?.is_none()
                {
                    release_reserved(tx, &world, &member, &replace, &timing, now).await?;
                    let moved = tx.member_now(member.id).await?;
                    member = moved.ok_or(StoreError::Gone("member".to_owned()))?;
                }
                if !under_way {
                    return Ok(Verdict::done());
                }
                let after = Member {
                    state: MemberState::Failed,
                    failure_reason: Some(reason),
                    message,
                    ..member.clone()
                };
                let lowers = lowers && !counted_out(tx, &member).await?;
                tx.member_move(&member, &after, now).await?;
                if lowers {
                    tx.component_want(member.instance_id, &member.component_key, -1, 0).await?;
                }
                let data = json!({"name": member.name, "component_key": member.component_key, "reason": reason,
                                  "advice": reason.advice()});
                told.events.push((EventType::MemberFailed, path(&after), data));
                Ok(Verdict::done())
            })
        }))
    })
}

/// The replacement that reserved the room of a member that never worked, if one did.
async fn replaced_for(cx: &StepCx<'_>, member: &Member) -> Result<Option<Operation>> {
    let reserved = member.allocation_made && member.active_witness_id.is_none();
    let Some(id) = cx.operation.parent_id.filter(|_| reserved && !cx.operation.input["replaces"].is_null())
    else {
        return Ok(None);
    };
    cx.store.operation_lookup(id).await
}

/// A member that was asked for and whose turn never came is failed.
pub(crate) async fn never_came(
    tx: &mut Tx,
    told: &mut Told,
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
    told.events.push((EventType::MemberFailed, path(&after), data));
    Ok(())
}
