//! Show a project's trust policy.

use muster_authz::Permission;

use super::{found, view};
use crate::{Answer, Cx, Result};

/// Handles `trust_policy_get`.
pub async fn get(cx: &Cx, project: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::TrustPolicyGet, scope, "project")?;
    Ok(Answer::new(&view(project, &found(cx, project).await?)))
}
