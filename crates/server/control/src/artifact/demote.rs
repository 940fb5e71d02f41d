//! Demote or retire an artifact.

use muster_api::artifact::ArtifactDemote;
use muster_authz::Permission;
use muster_model::artifact::Step;

use super::found;
use super::step::{Asked, take};
use crate::{Cx, PreparedCommand, Result};

/// Prepares `artifact_demote`.
pub async fn demote(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: ArtifactDemote,
) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactDemote, scope, "artifact")?;
    let artifact = found(cx, project, reference).await?;
    let step = Step::Demote { to: body.to };
    take(cx, artifact, Asked { step, reason: body.reason, smoke: None }).await
}
