//! Putting a drained member back to work: the adapter puts it back · verify that it works · publish.

use futures::future::BoxFuture;
use muster_db::Result;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::OperationState;
use serde_json::json;

use super::publish::PUBLISH;
use super::put_back::PUT_BACK;
use super::subject::{path, subject};
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{Act, Verdict};

/// What an adapter or a check says may be otherwise the next time. A member that is not there to be put back never is again.
const PARKS: &[&str] = &["adapter_failed", "not_witnessed"];

/// `member.resume`. Given up, its member is failed: it was on its way back, and nobody has seen where it is.
pub const RESUME: Definition = Definition {
    kind: "member.resume",
    steps: &[PUT_BACK, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::ParkFor(PARKS),
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Undo,
    unblock_by: "tenant",
    settle,
};

fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let member = subject(cx).await?;
        let on_its_way = member.state == MemberState::Joining && member.operation_id == Some(cx.operation.id);
        if state == OperationState::Succeeded || !on_its_way {
            return Ok(Verdict::done().into());
        }
        let reason = cx.operation.reason.as_deref().and_then(MemberFailure::parse);
        let reason = reason.unwrap_or(MemberFailure::DeadlinePassed);
        let (now, message) = (cx.now, cx.operation.message.clone());
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                let after = Member {
                    state: MemberState::Failed,
                    failure_reason: Some(reason),
                    message,
                    ..member.clone()
                };
                tx.member_move(&member, &after, now).await?;
                let data = json!({"name": member.name, "component_key": member.component_key, "reason": reason,
                                  "advice": reason.advice()});
                told.events.push((EventType::MemberFailed, path(&after), data));
                Ok(Verdict::done())
            })
        }))
    })
}
