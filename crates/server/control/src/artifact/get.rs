//! Show an artifact.

use muster_authz::Permission;

use super::{found, policy_of, view};
use crate::{Answer, Cx, Result};

/// Handles `artifact_get`.
pub async fn get(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactGet, scope, "artifact")?;
    let artifact = found(cx, project, reference).await?;
    Ok(Answer::new(&view(&artifact, &policy_of(cx, project).await?)))
}
