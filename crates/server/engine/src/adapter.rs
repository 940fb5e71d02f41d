//! Requests to an adapter: the adapter step is written with the journal, and the engine waits for its end. An adapter's
//! report is never evidence: the platform verifies the result itself afterwards.

use jiff::{SignedDuration, Timestamp};
use muster_db::Result;
use muster_manifest::{AppKind, Manifest};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::instance::Instance;
use muster_model::member::Member;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::death::{Life, lost_ground};
use crate::{StepAction, StepCx, StepOutcome};

/// Progress of a request.
pub(crate) enum Answered {
    /// Not answered yet; the step does this meanwhile.
    Pending(StepAction),
    /// The adapter reports success, with its message.
    Done(Option<String>),
    /// The adapter reports failure.
    Failed(String),
}

/// Queues the request, or returns its progress. A launchable app has no adapter and needs none.
pub(crate) async fn ask_adapter(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    verb: AdapterVerb,
    input: Value,
) -> Result<Answered> {
    if manifest.artifact_kind == AppKind::Launchable {
        return Ok(Answered::Done(Some("no adapter step is needed".to_owned())));
    }
    let retry_epoch = cx.operation.input.retry_epoch;
    let key = format!("{}/{verb}/{retry_epoch}", cx.step);
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
            Answered::Pending(StepOutcome::Wait { reason: waiting(&step, cx.now), until }.into())
        }
    })
}

/// Progress of an adapter's release of a leaving member.
pub(crate) enum LetGo {
    /// Not answered yet; the step does this meanwhile.
    Pending(StepAction),
    /// The operation continues, with or without the adapter.
    Done(StepAction),
    /// The adapter reports failure.
    Failed(String),
}

/// Multiple of the patience after which a forced step no longer waits for an adapter that holds it.
const HELD_PATIENCE: i32 = 5;

/// Has the adapter release a leaving member. Removal never waits indefinitely for a dead runtime: if the member's own cell
/// is proved dead, or every cell of a component in which its checks run, the operation continues without the adapter. A
/// forced one does too. The checks that follow decide whether that suffices.
pub(crate) async fn ask_to_let_go(
    cx: &StepCx<'_>,
    manifest: &Manifest,
    instance: &Instance,
    member: &Member,
    verb: AdapterVerb,
) -> Result<LetGo> {
    let (failed, pending) = match ask_adapter(cx, manifest, instance, member, verb, asked(cx)).await? {
        Answered::Done(message) => {
            let done = StepOutcome::Done { output: json!(null), message, witness: None };
            return Ok(LetGo::Done(done.into()));
        }
        Answered::Failed(why) => (Some(why), None),
        Answered::Pending(act) => (None, Some(act)),
    };
    let forced = cx.operation.input.force;
    if let Some(act) = pending {
        let (waited, held) = waited(cx).await?;
        let patience = if forced && held { cx.timing.task * HELD_PATIENCE } else { cx.timing.task };
        if waited < patience || (held && !forced) {
            return Ok(LetGo::Pending(act));
        }
        let silent = format!("no adapter completed {verb} within {} s", waited.as_secs());
        return Ok(match lost_ground(cx, manifest, instance, member).await? {
            Life::Dead(death) => LetGo::Done(skip(cx, &silent, &death.checked)),
            _ if forced => LetGo::Done(skip(cx, &silent, &[])),
            Life::Pending(look) => {
                LetGo::Pending(StepAction::combine(vec![act, look]).unwrap_or(StepOutcome::done().into()))
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

/// Returns how long this step has waited for its adapter, and whether one holds it now.
async fn waited(cx: &StepCx<'_>) -> Result<(SignedDuration, bool)> {
    let mut steps = cx.store.adapter_step_of(cx.operation.id).await?;
    steps.retain(|step| !step.state.is_final());
    let since = steps.iter().map(|step| step.created_at).max().unwrap_or(cx.now);
    let held = |step: &AdapterStep| {
        step.state == AdapterStepState::Leased && step.leased_until.is_some_and(|until| until >= cx.now)
    };
    Ok((cx.now.duration_since(since), steps.iter().any(held)))
}

/// Output of a step that continued without the adapter.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "adapter", rename = "skipped")]
pub(crate) struct Skipped {
    why: String,
    /// Evidence that the member's cell is dead, if that is why.
    proof: Vec<Value>,
}

/// Continues without the adapter, and cancels its step so that it does not run later.
fn skip(cx: &StepCx<'_>, why: &str, proof: &[Value]) -> StepAction {
    let because = if proof.is_empty() { "it is forced" } else { "its cell is dead" };
    let message = format!("done without the adapter, because {because}: {why}");
    let skipped = Skipped { why: why.to_owned(), proof: proof.to_vec() };
    let (operation, now) = (cx.operation.id, cx.now);
    StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.adapter_step_cancel_of(operation, now).await?;
            Ok(StepOutcome::with(skipped).and_message(Some(message)))
        })
    })
}

/// Explains the wait, for users.
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
                "the adapter {} missed its heartbeats; its lease lapsed and is offered again",
                step.holder
            )
        }
        _ if step.due_at > now => {
            let says = step.message.as_deref().unwrap_or("it gave no reason");
            format!("the adapter retries at {}: {says}", step.due_at)
        }
        _ => format!("no adapter has leased it for {} s", seconds(step.due_at)),
    }
}

fn queue(
    cx: &StepCx<'_>,
    instance: &Instance,
    member: &Member,
    verb: AdapterVerb,
    key: String,
    input: Value,
) -> StepAction {
    let step = AdapterStep {
        id: cx.env.id(),
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
    StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            // An operation requests one thing of a member at a time: an earlier, abandoned request must not run beside this
            // one or after it.
            tx.adapter_step_cancel_of(operation, now).await?;
            tx.adapter_step_queue(&step).await?;
            effects.steps_for.push(step.operator_account_id);
            Ok(StepOutcome::Wait { reason: format!("waiting for an adapter to {verb} it"), until })
        })
    })
}

/// Parameters of an adapter step besides the verb.
pub(crate) fn asked(cx: &StepCx<'_>) -> Value {
    let forced = cx.operation.input.force;
    json!({"force": forced, "operation_kind": cx.operation.kind, "deadline_at": cx.operation.deadline_at})
}
