//! Fail an adapter step, temporarily or permanently.

use jiff::SignedDuration;
use muster_api::adapter_step::AdapterStepFail;
use muster_authz::Permission;
use muster_db::{StepEnd, Tx};
use muster_ids::{OperationId, TypedId as _};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::origin::Audited;
use serde_json::{Value, json};

use super::{origin, own, refuse_adapter, said_before, short, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, Result};

/// Maximum retry delay in seconds: one day.
const LONGEST: i64 = 86_400;

/// Delay before the next reconcile of an instance after a failed one.
const AFTER_A_FAILURE: SignedDuration = SignedDuration::from_secs(30);

/// Handles `adapter_step_fail`.
pub async fn fail(cx: &Cx, project: &str, reference: &str, body: AdapterStepFail) -> Result<Answer> {
    let step = own(cx, project, reference, Permission::AdapterStepFail).await?;
    if body.retry_after_seconds.is_some_and(|seconds| !(0..=LONGEST).contains(&seconds)) {
        return Err(Error::field("/retry_after_seconds", format!("it must be from 0 to {LONGEST}")));
    }
    short("/adapter_detail", body.adapter_detail.as_ref())?;
    if said_before(&step, body.generation, AdapterStepState::Failed) {
        return Ok(Answer::new(&view(&step)));
    }
    let mut tx = cx.platform.store.begin().await.map_err(refuse_adapter)?;
    match write(cx, &mut tx, &step, &body).await {
        Ok(ended) => {
            tx.commit().await.map_err(refuse_adapter)?;
            cx.platform.sealer_wake.notify_one();
            cx.platform.engine.wake.notify_one();
            Ok(Answer::new(&view(&ended)))
        }
        Err(error) => {
            tx.rollback().await;
            Err(refuse_adapter(error))
        }
    }
}

/// Writes the result. Locks the operation's row first, in the engine's order: opposite lock orders would deadlock.
async fn write(
    cx: &Cx,
    tx: &mut Tx,
    step: &AdapterStep,
    body: &AdapterStepFail,
) -> muster_db::Result<AdapterStep> {
    if let Some(operation) = step.operation_id {
        tx.operation_wake(operation, cx.now).await?;
    }
    let detail = body.adapter_detail.clone().map(Value::Object);
    let end = StepEnd {
        message: Some(body.message.clone()),
        reason: Some(body.reason.clone()),
        adapter_detail: detail.clone(),
    };
    let ended = match body.retry_after_seconds {
        Some(seconds) => {
            let due = cx.now + SignedDuration::from_secs(seconds);
            tx.adapter_step_later(step.id, body.generation, cx.now, due, &end).await?
        }
        None => {
            let failed = AdapterStepState::Failed;
            tx.adapter_step_end(step.id, body.generation, failed, &end, cx.now).await?
        }
    };
    if let (Some(member), Some(detail)) = (step.member_id, detail) {
        tx.member_detail(member, step.incarnation, detail, cx.now).await?;
    }
    if step.verb == AdapterVerb::Reconcile && ended.state == AdapterStepState::Failed {
        // The tasks of this step have no waiter any more. Reconcile again soon: an instance that cannot be reconciled may be
        // unhealthy.
        tx.task_expire_of(OperationId::from_uuid(step.id.uuid()), cx.now).await?;
        tx.instance_schedule_reconcile(step.instance_id, cx.now + AFTER_A_FAILURE).await?;
    }
    let told = json!({"verb": step.verb, "holder": ended.holder, "generation": body.generation, "reason": body.reason,
                      "message": body.message, "retry_after_seconds": body.retry_after_seconds,
                      "instance_id": step.instance_id, "member_id": step.member_id, "operation_id": step.operation_id});
    let named = target("adapter_step", step.id, step.verb.as_str());
    let audited = Audited::success(Permission::AdapterStepFail.as_str(), named, told);
    cx.outbox_append(tx, &origin(cx, step), Some(audited), Vec::new()).await?;
    Ok(ended)
}
