//! Show a service account.

use muster_authz::Permission;

use crate::{Answer, Cx, Result};

/// Handles `service_account_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ServiceAccountGet, scope, "project")?;
    let account = cx.service_account(project, reference).await?;
    Ok(Answer::new(&account))
}
