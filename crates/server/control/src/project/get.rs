//! Show a project.

use muster_authz::Permission;

use crate::{Answer, Cx, Result};

/// Handles `project_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    let project = cx.project(reference).await?;
    cx.authorize(Permission::ProjectGet, project.scope(), "project")?;
    Ok(Answer::new(&project))
}
