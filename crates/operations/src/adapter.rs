//! Asking something of an adapter: the step is written with the journal, and its end is waited for. What an adapter says is
//! never more than that: whoever asked looks for itself afterwards.

use jiff::Timestamp;
use muster_manifest::{AppKind, Manifest};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::instance::Instance;
use muster_model::member::Member;
use muster_store::Result;
use serde_json::{Value, json};

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
