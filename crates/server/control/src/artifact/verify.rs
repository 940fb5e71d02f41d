//! Verify an artifact now: all content and all signatures.

use muster_api::artifact::ArtifactVerify;
use muster_authz::Permission;
use muster_model::artifact::Artifact;
use muster_model::event::EventType;
use serde_json::json;

use super::step::raced;
use super::{damage, found, path, policy_of, trust, view};
use crate::commit::target;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `artifact_verify`.
pub async fn verify(
    cx: &Cx,
    project: &str,
    reference: &str,
    _body: ArtifactVerify,
) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactVerify, scope, "artifact")?;
    let artifact = found(cx, project, reference).await?;
    damage::check(cx, artifact.repository_id, &artifact.digest).await?;
    let policy = policy_of(cx, project).await?;
    let verdict = trust::judge(cx, &artifact).await?;
    let told = json!({
        "repository": artifact.repository,
        "digest": artifact.digest,
        "trust": verdict.trust.as_str(),
        "reason": verdict.reason,
        "key_id": verdict.key_id,
    });
    let after = Artifact {
        verdict: Some(verdict),
        policy: Some(policy.policy),
        updated_at: cx.now,
        ..artifact.clone()
    };
    let (subject, named, now) =
        (path(&artifact), target("artifact", artifact.id, &artifact.repository), cx.now);
    let before = view(&artifact, &policy);
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.artifact_move(&artifact, &after, now).await.map_err(raced)?;
            let shown = Artifact { version: artifact.version + 1, ..after };
            Ok(Answer::new(&view(&shown, &policy)))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::ArtifactVerified, subject, told))
}
