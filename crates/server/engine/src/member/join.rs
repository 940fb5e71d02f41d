//! Joins a member through the adapter. The undo makes it leave, unless no adapter ever started.

use muster_db::Result;
use muster_model::adapter::AdapterVerb;
use muster_model::event::EventType;
use muster_model::instance::Instance;
use muster_model::member::{Member, MemberFailure, MemberState};
use serde_json::json;

use super::subject::{instance, manifest_of, path, refused, subject, wanted_version};
use crate::adapter::{Answered, LetGo, ask_adapter, ask_to_let_go, asked};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::component;
use crate::{StepAction, StepOutcome};

pub(super) const JOIN: Step = Step {
    name: "join",
    does: "adapter joins the member",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    let instance = instance(cx, &member).await?;
    if let Some(reason) = comes_first(cx, &instance, &member).await? {
        return Ok(StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into());
    }
    if member.state != MemberState::Joining {
        let now = cx.now;
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let after = Member { state: MemberState::Joining, ..member.clone() };
                tx.member_move(&member, &after, now).await?;
                let data = json!({"name": member.name, "incarnation": member.incarnation});
                effects.events.push((EventType::MemberJoining, path(&after), data));
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    let manifest = manifest_of(cx, wanted_version(cx, &instance)).await?;
    let input = asked(cx);
    Ok(match ask_adapter(cx, &manifest, &instance, &member, AdapterVerb::Join, input).await? {
        Answered::Pending(act) => act,
        Answered::Done(message) => StepOutcome::Done { output: json!(null), message, witness: None }.into(),
        Answered::Failed(why) => refused(MemberFailure::AdapterFailed, why).into(),
    })
}

/// First inactive member of a component with a lower `update_order`, if it joins in order and there is one. A failed or removed
/// member counts as inactive: the wait still ends, because the parent rolls back all of them.
async fn comes_first(cx: &StepCx<'_>, instance: &Instance, member: &Member) -> Result<Option<String>> {
    if !cx.operation.input.in_order {
        return Ok(None);
    }
    let manifest = manifest_of(cx, wanted_version(cx, instance)).await?;
    let own = component(&manifest, member)?.update_order;
    for before in manifest.components.iter().filter(|other| other.update_order < own) {
        if let Some((name, state)) = cx.store.member_not_active(instance.id, &before.key).await? {
            return Ok(Some(format!("it joins when {name} is active, which is {state}")));
        }
    }
    Ok(None)
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let steps = cx.store.adapter_step_of(cx.operation.id).await?;
    let began = steps.iter().any(|step| step.verb == AdapterVerb::Join && step.attempts > 0);
    if !began {
        let (now, operation) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, _| {
            Box::pin(async move {
                // An adapter may have leased it since the read above: then check again.
                if tx.adapter_step_cancel_of(operation, now).await? {
                    return Ok(StepOutcome::Wait {
                        reason: "an adapter started concurrently".to_owned(),
                        until: now,
                    });
                }
                Ok(StepOutcome::with_message("no adapter had started"))
            })
        }));
    }
    let member = subject(cx).await?;
    let instance = instance(cx, &member).await?;
    let manifest = manifest_of(cx, wanted_version(cx, &instance)).await?;
    Ok(match ask_to_let_go(cx, &manifest, &instance, &member, AdapterVerb::Leave).await? {
        LetGo::Pending(act) | LetGo::Done(act) => act,
        LetGo::Failed(why) => refused(MemberFailure::AdapterFailed, why).into(),
    })
}
