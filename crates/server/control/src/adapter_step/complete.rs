//! Complete an adapter step. The engine treats completion only as a trigger to verify the result.
use muster_api::adapter_step::AdapterStepComplete;
use muster_authz::Permission;
use muster_db::{StepEnd, Tx};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::origin::Audited;
use serde_json::{Value, json};

use super::{origin, own, reconcile, refuse_adapter, said_before, short, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, Result};

/// Handles `adapter_step_complete`.
pub async fn complete(cx: &Cx, project: &str, reference: &str, body: AdapterStepComplete) -> Result<Answer> {
    let step = own(cx, project, reference, Permission::AdapterStepComplete).await?;
    if said_before(&step, body.generation, AdapterStepState::Done) {
        return Ok(Answer::new(&view(&step)));
    }
    short("/adapter_detail", body.adapter_detail.as_ref())?;
    for (index, report) in body.members.iter().flatten().enumerate() {
        short(&format!("/members/{index}/adapter_detail"), report.adapter_detail.as_ref())?;
    }
    if step.verb == AdapterVerb::Reconcile {
        return reconcile::reconciled(cx, &step, body).await;
    }
    for (field, given) in [
        ("/members", body.members.is_some()),
        ("/reconcile_after_seconds", body.reconcile_after_seconds.is_some()),
    ] {
        if given {
            let why =
                format!("only a reconcile of the whole instance may contain it; the step is a {}", step.verb);
            return Err(Error::field(field, why));
        }
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

/// Writes the result. Locks the operation's row first, in the engine's order, to avoid deadlocks.
async fn write(
    cx: &Cx,
    tx: &mut Tx,
    step: &AdapterStep,
    body: &AdapterStepComplete,
) -> muster_db::Result<AdapterStep> {
    if let Some(operation) = step.operation_id {
        tx.operation_wake(operation, cx.now).await?;
    }
    let ended = end(cx, tx, step, body).await?;
    if let (Some(member), Some(detail)) = (step.member_id, &body.adapter_detail) {
        tx.member_detail(member, step.incarnation, Value::Object(detail.clone()), cx.now).await?;
    }
    if let Some(mode) = &body.topology_mode {
        tx.instance_topology(step.instance_id, mode, cx.now).await?;
    }
    cx.outbox_append(tx, &origin(cx, step), Some(audited(step, &ended)), Vec::new()).await?;
    Ok(ended)
}

/// Ends the step as done, if the lease is still held.
pub(super) async fn end(
    cx: &Cx,
    tx: &mut Tx,
    step: &AdapterStep,
    body: &AdapterStepComplete,
) -> muster_db::Result<AdapterStep> {
    let end = StepEnd {
        message: body.message.clone(),
        reason: None,
        adapter_detail: body.adapter_detail.clone().map(Value::Object),
    };
    tx.adapter_step_end(step.id, body.generation, AdapterStepState::Done, &end, cx.now).await
}

/// Returns the audit entry for the end of a lease.
pub(super) fn audited(step: &AdapterStep, ended: &AdapterStep) -> Audited {
    Audited::success(
        Permission::AdapterStepComplete.as_str(),
        target("adapter_step", step.id, step.verb.as_str()),
        json!({"verb": step.verb, "holder": ended.holder, "generation": ended.generation,
                       "message": ended.message, "instance_id": step.instance_id, "member_id": step.member_id,
                       "operation_id": step.operation_id}),
    )
}
