//! Drains a member through the adapter. The undo resumes it and verifies that.

use muster_db::Result;
use muster_model::adapter::AdapterVerb;
use muster_model::event::EventType;
use muster_model::member::{Member, MemberFailure, MemberState};
use serde_json::json;

use super::subject::{instance, manifest_of, path, refused, running_version, subject};
use super::verify_active::verify_and_activate;
use crate::adapter::{Answered, LetGo, ask_adapter, ask_to_let_go, asked};
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const DRAIN_STEP: Step = Step {
    name: "drain",
    does: "adapter drains the member",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

/// Explains why a member needs no draining, if so.
pub(super) fn nothing_to_drain(cx: &StepCx<'_>, member: &Member) -> Option<&'static str> {
    if cx.operation.input.force {
        return Some("it is forced: its work is not waited for");
    }
    match member.state {
        MemberState::Active | MemberState::Draining => None,
        MemberState::Drained => Some("it is drained"),
        _ => Some("no work runs on it"),
    }
}

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if let Some(why) = nothing_to_drain(cx, &member) {
        return Ok(StepOutcome::with_message(why).into());
    }
    if member.state != MemberState::Draining || member.operation_id != Some(cx.operation.id) {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let after = Member {
                    state: MemberState::Draining,
                    operation_id: Some(operation_id),
                    ..member.clone()
                };
                tx.member_move(&member, &after, now).await?;
                effects.events.push((EventType::MemberDraining, path(&after), json!({"name": member.name})));
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    let instance = instance(cx, &member).await?;
    let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
    Ok(match ask_to_let_go(cx, &manifest, &instance, &member, AdapterVerb::Drain).await? {
        LetGo::Pending(act) | LetGo::Done(act) => act,
        LetGo::Failed(why) => refused(MemberFailure::AdapterFailed, why).into(),
    })
}

/// Resumes the member and verifies that it works: a state that was left is never re-entered on an adapter's report alone.
async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    if !matches!(member.state, MemberState::Draining | MemberState::Drained) {
        return Ok(StepOutcome::with_message(format!("it is {}", member.state)).into());
    }
    let instance = instance(cx, &member).await?;
    let manifest = manifest_of(cx, running_version(&member, &instance)).await?;
    let input = asked(cx);
    match ask_adapter(cx, &manifest, &instance, &member, AdapterVerb::Resume, input).await? {
        Answered::Pending(act) => Ok(act),
        Answered::Failed(why) => Ok(refused(MemberFailure::AdapterFailed, why).into()),
        Answered::Done(_) => verify_and_activate(cx, member).await,
    }
}
