//! Artifacts: published content, the signatures that count for it, and its state.

pub(crate) mod credential;
mod damage;
mod delete;
mod demote;
pub(crate) mod external;
mod get;
mod lint;
mod list;
mod promote;
mod publish;
mod references;
mod start;
mod step;
pub(crate) mod trust;
mod verify;
use muster_api::artifact as api;
use muster_ids::{ArtifactId, ProjectId};
use muster_model::artifact::{Artifact, ArtifactState, TrustPolicy, Verdict, retirable_at};

use crate::{Cx, Error, Result};

pub use delete::delete;
pub use demote::demote;
pub use get::get;
pub use list::list;
pub use promote::promote;
pub use publish::publish;
pub use references::references;
pub(crate) use start::{Start, ensure_release_startable, ensure_startable, ensure_trusted};
pub(crate) use trust::{judged, policy_of};
pub use verify::verify;

/// Returns its path.
pub(crate) fn path(artifact: &Artifact) -> String {
    format!("/v1/projects/{}/artifacts/{}", artifact.project_id, artifact.id)
}

fn verdict_view(verdict: &Verdict, policy: i64, present: i64) -> api::Verdict {
    // A verdict under an older policy does not cover the current keys: decisions verify again, and so should the reader.
    let over = if policy == present { "" } else { "; keys or rules changed since: verify it again" };
    api::Verdict {
        trust: verdict.trust,
        reason: verdict.reason.clone(),
        message: format!("{}{over}", verdict.message),
        key_id: verdict.key_id,
        signature: verdict.signature.clone(),
        policy,
        checked_at: verdict.checked_at,
    }
}

/// Returns the view, which is the same for all callers.
pub(crate) fn view(artifact: &Artifact, policy: &TrustPolicy) -> api::Artifact {
    let retirable =
        (artifact.state == ArtifactState::Deprecated).then(|| retirable_at(artifact, policy)).flatten();
    api::Artifact {
        id: artifact.id,
        tenant_id: artifact.tenant_id,
        project_id: artifact.project_id,
        repository_id: artifact.repository_id,
        repository: artifact.repository.clone(),
        digest: artifact.digest.clone(),
        kind: artifact.kind,
        media_type: artifact.media_type.clone(),
        size: artifact.size,
        line: artifact.line.clone(),
        state: artifact.state,
        canary_percent: artifact.canary_percent,
        verdict: artifact
            .verdict
            .as_ref()
            .map(|verdict| verdict_view(verdict, artifact.policy.unwrap_or_default(), policy.policy)),
        smoke_witness_id: artifact.smoke_witness_id,
        superseded_by: artifact.superseded_by,
        retirable_at: retirable,
        labels: artifact.labels.clone(),
        created_at: artifact.created_at,
        updated_at: artifact.updated_at,
        version: artifact.version,
    }
}

/// Describes a release made of an artifact.
fn release_words(release: &muster_db::ArtifactRelease) -> String {
    format!("the release {} of the app {}", release.name, release.app)
}

/// Returns an artifact of a project, by id, by `repository@sha256:…` or by `repository:tag`.
pub(crate) async fn found(cx: &Cx, project: ProjectId, reference: &str) -> Result<Artifact> {
    let store = &cx.platform.store;
    let absent = || Error::not_found("artifact");
    let found = match reference.parse::<ArtifactId>() {
        Ok(id) => store.artifact_lookup(id).await?,
        Err(_) => {
            let (name, what) = match reference.split_once('@') {
                Some((name, digest)) => (name, Ok(digest.to_owned())),
                None => {
                    let (name, tag) = reference.rsplit_once(':').ok_or_else(absent)?;
                    (name, Err(tag))
                }
            };
            let repository = store.repository_by_name(project, name).await?.ok_or_else(absent)?;
            let digest = match what {
                Ok(digest) => digest,
                Err(tag) => store.tag_lookup(repository.id, tag).await?.ok_or_else(absent)?,
            };
            store.artifact_by_digest(repository.id, &digest).await?
        }
    };
    found.filter(|artifact| artifact.project_id == project).ok_or_else(absent)
}
