//! Adding a member: claim (−release) · provision its cell (−destroy) · the adapter joins it (−leaves) · verify · publish.

use futures::future::BoxFuture;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::OperationState;
use muster_store::Result;
use serde_json::json;

use super::claim::CLAIM;
use super::join::JOIN;
use super::provision::PROVISION;
use super::publish::PUBLISH;
use super::subject::{path, subject};
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{Act, Verdict};

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

fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<Act>> {
    // One that takes another's place was never wanted beside it.
    failed(cx, state, cx.operation.input["replaces"].is_null())
}

/// What did not come to work is failed, with the reason. An add that had no effect leaves its component wanting one less.
pub(super) fn failed<'a>(
    cx: &'a StepCx<'a>,
    state: OperationState,
    lowers: bool,
) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let member = subject(cx).await?;
        let over = matches!(member.state, MemberState::Removed | MemberState::Removing | MemberState::Active);
        if state == OperationState::Succeeded || over {
            return Ok(Verdict::done().into());
        }
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
        let now = cx.now;
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                let after = Member {
                    state: MemberState::Failed,
                    failure_reason: Some(reason),
                    message,
                    ..member.clone()
                };
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
