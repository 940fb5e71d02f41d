//! Show an adapter step, with the instance as it is now.
use muster_api::adapter_step::LeasedStep;
use muster_authz::Permission;
use muster_ids::AdapterStepId;

use super::{snapshot, view};
use crate::{Answer, Cx, Error, Result};

/// Handles `adapter_step_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AdapterStepGet, scope, "adapter step")?;
    let absent = || Error::not_found("adapter step");
    let id = reference.parse::<AdapterStepId>().map_err(|_| absent())?;
    let found = cx.platform.store.adapter_step_lookup(id).await?;
    let step = found
        .filter(|step| step.project_id == project && cx.reaches(step.operator_account_id))
        .ok_or_else(absent)?;
    let snapshot = snapshot::snapshot(cx, step.instance_id).await?;
    Ok(Answer::new(&LeasedStep { step: view(&step), snapshot }))
}
