//! Extend the lease of an adapter step.

use muster_api::adapter_step::AdapterStepHeartbeat;
use muster_authz::Permission;

use super::{lease_length, own, refuse_adapter, view};
use crate::{Answer, Cx, Result};

/// Handles `adapter_step_heartbeat`.
pub async fn heartbeat(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: AdapterStepHeartbeat,
) -> Result<Answer> {
    let step = own(cx, project, reference, Permission::AdapterStepHeartbeat).await?;
    let length = lease_length(body.lease_seconds);
    let mut tx = cx.platform.store.begin().await.map_err(refuse_adapter)?;
    let kept = tx.adapter_step_keep(step.id, body.generation, cx.now, length, None, None).await;
    let kept = match kept {
        Ok(kept) => kept,
        Err(error) => {
            tx.rollback().await;
            return Err(refuse_adapter(error));
        }
    };
    tx.commit().await.map_err(refuse_adapter)?;
    Ok(Answer::new(&view(&kept)))
}
