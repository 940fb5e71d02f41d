//! Delete a repository and everything in it.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_authz::Permission;
use muster_db::StoreError;
use muster_model::event::EventType;
use serde_json::json;

use super::{found, view};
use crate::commit::target;
use crate::tenant::removed_view;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `repository_delete`.
pub async fn delete(cx: &Cx, project: &str, reference: &str) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::RepositoryDelete, scope, "repository")?;
    let repository = found(cx, project, reference).await?;
    cx.expect_version(repository.version)?;
    let held = cx.platform.store.artifact_held_in(repository.id).await?;
    if !held.is_empty() {
        let why = format!("artifacts in it are in use: {}; demote them to retired first", held.join(", "));
        return Err(Error::new(Code::NotEmpty, why));
    }
    let named = target("repository", repository.id, &repository.name);
    let path = format!("/v1/projects/{project}/repositories/{}", repository.id);
    let told = json!({"name": repository.name});
    let before = view(cx, &repository).await?;
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            let in_use = |error| match error {
                StoreError::Gone(_) => {
                    let why = "a live cell, or a release that is not retired, uses its content";
                    Error::new(Code::NotEmpty, why)
                }
                error => Error::from(error),
            };
            let artifacts = tx.artifact_delete_in(repository.id).await.map_err(in_use)?;
            tx.repository_delete(repository.id, repository.version).await.map_err(in_use)?;
            let removed = BTreeMap::from([("artifacts", i64::try_from(artifacts).unwrap_or(i64::MAX))]);
            Ok(Answer::new(&removed_view(&repository.id, removed)))
        })
    });
    // Its name may be cached.
    Ok(commit.before(&before).revokes().event(cx, EventType::RepositoryDeleted, path, told))
}
