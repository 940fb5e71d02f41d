//! Asking something of an adapter: the step is written with the journal, and its end is waited for. What an adapter says is
//! never more than that: whoever asked looks for itself afterwards.

use jiff::{SignedDuration, Timestamp};
use muster_db::Result;
use muster_manifest::{AppKind, Manifest};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::instance::Instance;
use muster_model::member::Member;
use serde_json::{Value, json};

use crate::death::{Life, lost_ground};
use crate::{Act, StepCx, Verdict};

/// How that stands.
pub(crate) enum Answered {
    /// Nothing to say yet; this is what the step does meanwhile.
    Pending(Act),
    /// The adapter says that it is done, and what it did.
    Done(Option<String>),
    /// The adapter says that it cannot be done.
    Failed(String),
}

/// Asks, or finds how what was asked stands. An app that just runs has no adapter, and needs none.
pub(crate) async fn ask_adapter(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    verb: AdapterVerb,
    input: Value,
) -> Result<Answered> {
    if manifest.artifact_kind == AppKind::Launchable {
        return Ok(Answered::Done(Some("nothing has to be done for it".to_owned())));
    }
    let round = cx.operation.input["round"].as_i64().unwrap_or(0);
    let key = format!("{}/{verb}/{round}", cx.step);
    let steps = cx.store.adapter_step_of(cx.operation.id).await?;
    let Some(step) = steps.into_iter().find(|step| step.key == key) else {
        return Ok(Answered::Pending(queue(cx, instance, member, verb, key, input)));
    };
    Ok(match step.state {
        AdapterStepState::Done => Answered::Done(step.message),
        AdapterStepState::Failed => {
            let why = step.message.unwrap_or_else(|| "the adapter gave no reason".to_owned());
            Answered::Failed(match step.reason {
                Some(reason) => format!("{reason}: {why}"),
                None => why,
            })
        }
        AdapterStepState::Cancelled => Answered::Failed("it was cancelled".to_owned()),
        AdapterStepState::Queued | AdapterStepState::Leased => {
            let until = cx.now + cx.timing.look;
            Answered::Pending(Verdict::Wait { reason: waiting(&step, cx.now), until }.into())
        }
    })
}

/// What a member that leaves waits for.
pub(crate) enum LetGo {
    /// Nothing to say yet; this is what the step does meanwhile.
    Pending(Act),
    /// It goes on, by what the adapter did or without it.
    Done(Act),
    /// The adapter says that it cannot be done.
    Failed(String),
}

/// An adapter that holds a forced step for so many times the patience is not waited for any longer.
const HELD_PATIENCE: i32 = 5;

/// Has the adapter let go of a member that leaves. Nothing waits for ever for a dead runtime's consent: where the member's own
/// cell is proved dead, or every cell of a component in which its checks run, it goes on without the adapter; and so it does by
/// force. The checks that follow decide what that is worth.
pub(crate) async fn ask_to_let_go(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    verb: AdapterVerb,
) -> Result<LetGo> {
    let (failed, pending) = match ask_adapter(cx, manifest, instance, member, verb, asked(cx)).await? {
        Answered::Done(message) => {
            let done = Verdict::Done { output: json!(null), message, witness: None };
            return Ok(LetGo::Done(done.into()));
        }
        Answered::Failed(why) => (Some(why), None),
        Answered::Pending(act) => (None, Some(act)),
    };
    let forced = cx.operation.input["force"] == json!(true);
    if let Some(act) = pending {
        let (waited, held) = waited(cx).await?;
        let patience = if forced && held { cx.timing.task * HELD_PATIENCE } else { cx.timing.task };
        if waited < patience || (held && !forced) {
            return Ok(LetGo::Pending(act));
        }
        let silent = format!("no adapter did {verb} within {} s", waited.as_secs());
        return Ok(match lost_ground(cx, manifest, instance, member).await? {
            Life::Dead(death) => LetGo::Done(skip(cx, &silent, &death.checked)),
            _ if forced => LetGo::Done(skip(cx, &silent, &[])),
            Life::Pending(look) => {
                LetGo::Pending(Act::together(vec![act, look]).unwrap_or(Verdict::done().into()))
            }
            Life::NotProved(_) => LetGo::Pending(act),
        });
    }
    let why = failed.unwrap_or_default();
    Ok(match lost_ground(cx, manifest, instance, member).await? {
        Life::Dead(death) => LetGo::Done(skip(cx, &why, &death.checked)),
        _ if forced => LetGo::Done(skip(cx, &why, &[])),
        Life::Pending(act) => LetGo::Pending(act),
        Life::NotProved(_) => LetGo::Failed(why),
    })
}

/// How long this step has waited for its adapter, and whether one holds it now.
async fn waited(cx: &StepCx<'_>) -> Result<(SignedDuration, bool)> {
    let mut steps = cx.store.adapter_step_of(cx.operation.id).await?;
    steps.retain(|step| !step.state.is_final());
    let since = steps.iter().map(|step| step.created_at).max().unwrap_or(cx.now);
    let held = |step: &AdapterStep| {
        step.state == AdapterStepState::Leased && step.leased_until.is_some_and(|until| until >= cx.now)
    };
    Ok((cx.now.duration_since(since), steps.iter().any(held)))
}

/// Goes on without the adapter, which must not do later what nothing waits for any more.
fn skip(cx: &StepCx<'_>, why: &str, proof: &[Value]) -> Act {
    let because = if proof.is_empty() { "it is forced" } else { "what it would work in is dead" };
    let message = format!("done without the adapter, because {because}: {why}");
    let output = json!({"adapter": "skipped", "why": why, "proof": proof});
    let (operation, now) = (cx.operation.id, cx.now);
    Act::write(move |tx, _| {
        Box::pin(async move {
            tx.adapter_step_cancel_of(operation, now).await?;
            Ok(Verdict::Done { output, message: Some(message), witness: None })
        })
    })
}

/// Why it is waited, in words for people.
fn waiting(step: &AdapterStep, now: Timestamp) -> String {
    let seconds = |since: Timestamp| now.duration_since(since).as_secs().max(0);
    match (step.state, step.leased_until) {
        (AdapterStepState::Leased, Some(until)) if until >= now => {
            let at = step.message.as_deref().map(|says| format!(": {says}")).unwrap_or_default();
            let far = step.percent.map(|percent| format!(", {percent} %")).unwrap_or_default();
            format!("the adapter {} works on it{at}{far}", step.holder)
        }
        (AdapterStepState::Leased, _) => {
            format!(
                "the adapter {} has not been heard from; its lease lapsed and is offered again",
                step.holder
            )
        }
        _ if step.due_at > now => {
            let says = step.message.as_deref().unwrap_or("it gave no reason");
            format!("the adapter asked for patience until {}: {says}", step.due_at)
        }
        _ => format!("no adapter has asked for it for {} s", seconds(step.due_at)),
    }
}

fn queue(
    cx: &StepCx<'_>,
    instance: &Instance,
    member: &Member,
    verb: AdapterVerb,
    key: String,
    input: Value,
) -> Act {
    let step = AdapterStep {
        id: cx.world.id(),
        tenant_id: instance.tenant_id,
        project_id: instance.project_id,
        app_id: instance.app_id,
        instance_id: instance.id,
        member_id: Some(member.id),
        incarnation: member.incarnation,
        operation_id: Some(cx.operation.id),
        key,
        verb,
        operator_account_id: instance.operator_account_id,
        input,
        state: AdapterStepState::Queued,
        generation: 0,
        holder: String::new(),
        leased_until: None,
        due_at: cx.now,
        attempts: 0,
        message: None,
        percent: None,
        reason: None,
        adapter_detail: None,
        correlation_id: cx.operation.correlation_id.clone(),
        created_at: cx.now,
        expires_at: cx.operation.deadline_at,
        finished_at: None,
    };
    let (until, operation) = (cx.now + cx.timing.look, cx.operation.id);
    let now = cx.now;
    Act::write(move |tx, told| {
        Box::pin(async move {
            // An operation wants one thing of a member at a time: what it asked for before, and does not wait for any more,
            // must not be carried out beside this or after it.
            tx.adapter_step_cancel_of(operation, now).await?;
            tx.adapter_step_queue(&step).await?;
            told.steps_for.push(step.operator_account_id);
            Ok(Verdict::Wait { reason: format!("an adapter has to {verb} it"), until })
        })
    })
}

/// What an adapter is told beside the verb.
pub(crate) fn asked(cx: &StepCx<'_>) -> Value {
    let forced = cx.operation.input["force"] == json!(true);
    json!({"force": forced, "operation_kind": cx.operation.kind, "deadline_at": cx.operation.deadline_at})
}
