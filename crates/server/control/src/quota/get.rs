//! Show a project's quota and usage.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `quota_get`.
pub async fn get(cx: &Cx, project: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::QuotaGet, scope, "project")?;
    let quota = cx.platform.store.quota_lookup(project).await?;
    Ok(Answer::new(&view(project, &quota)))
}
