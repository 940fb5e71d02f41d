//! Publish content of a repository, or of an external registry, as an artifact.

use muster_api::Code;
use muster_api::artifact::ArtifactPublish;
use muster_authz::Permission;
use muster_model::artifact::{Artifact, ArtifactState, Change};
use muster_model::event::EventType;
use muster_registry::manifest::Manifest;
use serde_json::json;

use super::step::raced;
use super::{external, path, policy_of, trust, view};
use crate::commit::target;
use crate::registry::published;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `artifact_publish` and verifies its signatures. Publishing again changes only the line and labels of a draft.
pub async fn publish(cx: &Cx, project: &str, body: ArtifactPublish) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactPublish, scope, "project")?;
    if let Some(from) = &body.external {
        external::reference(cx, scope, &body.repository, &body.reference, from).await?;
    }
    let store = &cx.platform.store;
    let repository = store.repository_by_name(project_id, &body.repository).await?;
    let repository = repository
        .ok_or_else(|| Error::field("/repository", "the project has no such repository: push to it first"))?;
    let found = match body.reference.contains(':') {
        true => store.manifest_lookup(repository.id, &body.reference).await,
        false => store.manifest_by_tag(repository.id, &body.reference).await,
    };
    let found = found?;
    let found = found
        .ok_or_else(|| Error::field("/reference", "the repository has no such manifest: push it first"))?;
    let manifest = Manifest::parse(&found.content, None)
        .map_err(|error| Error::new(Code::InvalidState, error.to_string()))?;
    if manifest.subject.is_some() {
        return Err(Error::field("/reference", "this manifest refers to another one: publish that one"));
    }
    let known = store.artifact_by_digest(repository.id, &found.digest).await?;
    let total = store.manifest_total(repository.id, &found.digest).await?.unwrap_or_default();
    let digest = found.digest.parse().map_err(|_| Error::new(Code::Internal, "invalid digest"))?;
    let row = crate::registry::manifest_row(&manifest, &digest, found.content.to_vec(), total);
    let before = match known {
        Some(known) => known,
        None => published(cx, scope, (repository.id, &repository.name), &manifest, &row),
    };
    let policy = policy_of(cx, project_id).await?;
    let verdict = trust::judge(cx, &before).await?;
    let mut after = Artifact {
        verdict: Some(verdict),
        policy: Some(policy.policy),
        updated_at: cx.now,
        ..before.clone()
    };
    if let Some(line) = body.line.filter(|line| *line != before.line) {
        if before.state != ArtifactState::Draft {
            return Err(Error::field(
                "/line",
                format!("it is {}, and only the line of a draft can change", before.state),
            ));
        }
        after.line = line;
    }
    if body.labels.is_some() {
        after.labels = checked_labels(body.labels)?;
    }
    let change = Change {
        before: None,
        after: ArtifactState::Draft,
        actor_id: cx.actor_id(),
        reason: "it was published".to_owned(),
        at: cx.now,
    };
    let told = json!({"repository": before.repository, "digest": before.digest, "line": after.line,
        "secret": body.external.as_ref().and_then(|from| from.secret.clone()),
        "external": body.external.map(|from| format!("{}/{}", from.registry, from.repository))});
    let (subject, named, now) = (path(&before), target("artifact", before.id, &before.repository), cx.now);
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.artifact_publish(&before, &change).await?;
            tx.artifact_move(&before, &after, now).await.map_err(raced)?;
            let shown = Artifact { version: before.version + 1, ..after };
            Ok(Answer::new(&view(&shown, &policy)))
        })
    });
    Ok(commit.event(cx, EventType::ArtifactPublished, subject, told))
}
