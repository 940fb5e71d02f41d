//! Report progress of an adapter step. This also extends the lease.

use muster_api::adapter_step::AdapterStepProgress;
use muster_authz::Permission;
use muster_db::Tx;
use muster_model::adapter::AdapterStep;
use serde_json::Value;

use super::{lease_length, own, refuse_adapter, short, view};
use crate::{Answer, Cx, Result};

/// Handles `adapter_step_progress`.
pub async fn progress(cx: &Cx, project: &str, reference: &str, body: AdapterStepProgress) -> Result<Answer> {
    let step = own(cx, project, reference, Permission::AdapterStepProgress).await?;
    short("/adapter_detail", body.adapter_detail.as_ref())?;
    let mut tx = cx.platform.store.begin().await.map_err(refuse_adapter)?;
    match write(cx, &mut tx, &step, &body).await {
        Ok(kept) => {
            tx.commit().await.map_err(refuse_adapter)?;
            Ok(Answer::new(&view(&kept)))
        }
        Err(error) => {
            tx.rollback().await;
            Err(refuse_adapter(error))
        }
    }
}

async fn write(
    cx: &Cx,
    tx: &mut Tx,
    step: &AdapterStep,
    body: &AdapterStepProgress,
) -> muster_db::Result<AdapterStep> {
    let length = lease_length(body.lease_seconds);
    let message = body.message.as_deref();
    let kept = tx.adapter_step_keep(step.id, body.generation, cx.now, length, message, body.percent).await?;
    if let (Some(member), Some(detail)) = (step.member_id, &body.adapter_detail) {
        tx.member_detail(member, step.incarnation, Value::Object(detail.clone()), cx.now).await?;
    }
    Ok(kept)
}
