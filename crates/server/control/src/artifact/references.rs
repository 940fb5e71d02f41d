//! Show everything that depends on an artifact, from signatures to running cells.

use muster_api::artifact::{ArtifactReferences, CellReference, SignatureReference};
use muster_authz::Permission;
use muster_model::artifact::ArtifactState;
use muster_trust::{bundle, simple};

use super::{found, lint, policy_of, view};
use crate::{Answer, Cx, Result};

/// Maximum number of listed signatures; the registry's referrers list has all.
const MOST_SIGNATURES: i64 = 1000;

/// Handles `artifact_references`.
pub async fn references(cx: &Cx, project: &str, reference: &str) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ArtifactReferences, scope, "artifact")?;
    let artifact = found(cx, project, reference).await?;
    let store = &cx.platform.store;
    let (repository, digest) = (artifact.repository_id, &artifact.digest);
    let mut signatures = Vec::new();
    if let Ok(parsed) = digest.parse::<muster_trust::Digest>()
        && let Some(tagged) = store.manifest_by_tag(repository, &simple::tag(&parsed)).await?
    {
        signatures.push(SignatureReference {
            digest: tagged.digest,
            by: "tag".to_owned(),
            artifact_type: "cosign simple signing".to_owned(),
        });
    }
    let bundles = store.referrers(repository, digest, Some(bundle::MEDIA_TYPE), "", MOST_SIGNATURES).await;
    for referrer in bundles? {
        signatures.push(SignatureReference {
            digest: referrer.digest,
            by: "referrer".to_owned(),
            artifact_type: bundle::MEDIA_TYPE.to_owned(),
        });
    }
    let cells = store.artifact_cells(artifact.id).await?;
    let policy = policy_of(cx, project).await?;
    let shown = view(&artifact, &policy);
    let mut holds: Vec<String> = cells
        .iter()
        .map(|cell| format!("the cell {} ({}) was created from it", cell.name, cell.state))
        .collect();
    let releases = store.artifact_releases(artifact.id).await?;
    holds.extend(
        releases
            .iter()
            .map(|release| format!("{} uses it and is {}", super::release_words(release), release.state)),
    );
    if let Some(at) = shown.retirable_at.filter(|at| *at > cx.now) {
        holds.push(format!("its grace period ends at {at}"));
    }
    if !matches!(artifact.state, ArtifactState::Draft | ArtifactState::Deprecated | ArtifactState::Retired) {
        holds.push(format!("it is {}", artifact.state));
    }
    let changes = store.artifact_changes(artifact.id).await?;
    Ok(Answer::new(&ArtifactReferences {
        tags: store.tags_of(repository, digest).await?,
        signatures,
        indexes: store.manifest_parents(repository, digest).await?,
        cells: cells
            .into_iter()
            .map(|cell| CellReference {
                id: cell.id,
                name: cell.name,
                state: cell.state,
                incarnation: cell.incarnation,
            })
            .collect(),
        supersedes: store.artifact_supersedes(artifact.id).await?,
        lint: lint::findings(cx, &artifact).await?,
        changes,
        holds,
        artifact: shown,
    }))
}
