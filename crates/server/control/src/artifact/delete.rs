//! Delete a draft or retired artifact, with its manifest and tags. Garbage collection reclaims its blobs.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_authz::Permission;
use muster_db::StoreError;
use muster_model::artifact::ArtifactState;
use muster_model::event::EventType;
use serde_json::json;

use super::{found, path, policy_of, view};
use crate::commit::target;
use crate::tenant::removed_view;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `artifact_delete`.
pub async fn delete(cx: &Cx, project: &str, reference: &str) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactDelete, scope, "artifact")?;
    let artifact = found(cx, project, reference).await?;
    cx.expect_version(artifact.version)?;
    if !matches!(artifact.state, ArtifactState::Draft | ArtifactState::Retired) {
        let why = format!("it is {}: only drafts and retired artifacts can be removed", artifact.state);
        return Err(Error::new(Code::InvalidState, why));
    }
    let named = target("artifact", artifact.id, &artifact.repository);
    let told = json!({"repository": artifact.repository, "digest": artifact.digest, "state": artifact.state});
    let subject = path(&artifact);
    let policy = policy_of(cx, project).await?;
    let before = view(&artifact, &policy);
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            let needed = |error| match error {
                StoreError::Gone(_) => Error::new(
                    Code::InvalidState,
                    "it is in use: by a cell created from it, a release that is not retired, or an index \
                     that contains it",
                ),
                error => Error::from(error),
            };
            tx.artifact_delete(artifact.id, artifact.version).await.map_err(needed)?;
            tx.manifest_delete(artifact.repository_id, &artifact.digest).await.map_err(needed)?;
            Ok(Answer::new(&removed_view(&artifact.id, BTreeMap::new())))
        })
    });
    // Its manifest may be cached.
    Ok(commit.before(&before).revokes().event(cx, EventType::ArtifactDeleted, subject, told))
}
