//! Resumes a drained member: the adapter resumes it · verify that it works · publish.

use muster_db::Result;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{OperationKind, OperationState};
use serde_json::json;

use super::publish::PUBLISH;
use super::resume_step::RESUME_STEP;
use super::subject::{path, subject};
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{StepAction, StepOutcome};

/// A retry of the adapter or of a check may succeed. A missing member stays missing.
const BLOCKS: &[&str] = &["adapter_failed", "not_witnessed"];

/// `member.resume`. Abandoning it fails the member: it was being resumed, and its state is unverified.
pub const RESUME: Definition = Definition {
    kind: OperationKind::MemberResume,
    steps: &[RESUME_STEP, VERIFY_ACTIVE, PUBLISH],
    on_failure: OnFailure::BlockFor(BLOCKS),
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Undo,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let member = subject(cx).await?;
    let on_its_way = member.state == MemberState::Joining && member.operation_id == Some(cx.operation.id);
    if state == OperationState::Succeeded || !on_its_way {
        return Ok(StepOutcome::done().into());
    }
    let reason = cx.operation.reason.as_deref().and_then(MemberFailure::parse);
    let reason = reason.unwrap_or(MemberFailure::DeadlinePassed);
    let (now, message) = (cx.now, cx.operation.message.clone());
    Ok(StepAction::commit(move |tx, effects| {
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
            effects.events.push((EventType::MemberFailed, path(&after), data));
            Ok(StepOutcome::done())
        })
    }))
}
