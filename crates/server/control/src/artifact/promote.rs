//! Promote an artifact.

use muster_api::Code;
use muster_api::artifact::ArtifactPromote;
use muster_authz::Permission;
use muster_ids::WitnessId;
use muster_model::artifact::{Artifact, ArtifactState, Step};
use muster_wire::cell::{CellSpec, Root};

use super::found;
use super::step::{Asked, take};
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `artifact_promote`.
pub async fn promote(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: ArtifactPromote,
) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactPromote, scope, "artifact")?;
    let artifact = found(cx, project_id, reference).await?;
    let to = body.to;
    if body.percent.is_some() && to != ArtifactState::Canary {
        return Err(Error::field("/percent", "only a canary has a share"));
    }
    let smoke = match &body.smoke_cell {
        Some(cell) => Some(smoked(cx, project, cell, &artifact).await?),
        None => None,
    };
    take(
        cx,
        artifact,
        Asked { step: Step::Promote { to, percent: body.percent }, reason: body.reason, smoke },
    )
    .await
}

/// Returns the agent's evidence that a cell of this exact digest ran. The cell may be gone since.
async fn smoked(cx: &Cx, project: &str, cell: &str, artifact: &Artifact) -> Result<WitnessId> {
    let wrong = |why: String| Error::field("/smoke_cell", why);
    let cell = cx.cell(project, cell).await.map_err(|error| match error.code {
        Code::NotFound => wrong("the project has no such cell".to_owned()),
        _ => error,
    })?;
    let spec: CellSpec = serde_json::from_value(cell.spec.clone())
        .map_err(|_| Error::new(Code::Internal, "the specification of the cell cannot be read"))?;
    if spec.root != Root::Image(artifact.digest.clone()) {
        return Err(wrong(format!("{} was not created from {}", cell.name, artifact.digest)));
    }
    cell.running_witness_id.ok_or_else(|| {
        let why = cell.message.as_deref().unwrap_or("it has not become ready yet");
        wrong(format!("{} was not verified running: it is {}; {why}", cell.name, cell.state))
    })
}
