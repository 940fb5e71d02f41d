//! Show a repository.

use muster_authz::Permission;

use super::{found, view};
use crate::{Answer, Cx, Result};

/// Handles `repository_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RepositoryGet, scope, "repository")?;
    let repository = found(cx, project, reference).await?;
    Ok(Answer::new(&view(cx, &repository).await?))
}
