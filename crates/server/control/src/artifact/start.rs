//! Checks whether an artifact may be started: its state, and the signatures on it.

use std::collections::BTreeSet;

use muster_api::Code;
use muster_db::StoreError;
use muster_ids::AppVersionId;
use muster_manifest::{Manifest, RootFrom};
use muster_model::artifact::{Artifact, ArtifactState, Trust};

use super::{judged, policy_of};
use crate::{Cx, Error, Result};

/// Kind of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Something new: an instance, the first cells of a new release in an instance, a cell.
    New,
    /// Another or a restarted cell of a running release. A deprecated artifact is allowed.
    Existing,
}

/// Ensures that the artifact may start, and is signed by a trusted key where its project requires that.
pub(crate) async fn ensure_startable(cx: &Cx, artifact: &Artifact, start: Start) -> Result<()> {
    let may_start = match start {
        Start::New => artifact.state.may_start(),
        Start::Existing => artifact.state != ArtifactState::Retired,
    };
    if !may_start {
        let why = format!("the artifact is {}, and no cell can be created from it", artifact.state);
        return Err(Error::new(Code::InvalidState, why));
    }
    ensure_trusted(cx, artifact).await
}

/// Ensures that an artifact is signed by a trusted key, where its project requires that.
pub(crate) async fn ensure_trusted(cx: &Cx, artifact: &Artifact) -> Result<()> {
    let policy = policy_of(cx, artifact.project_id).await?;
    let verdict = judged(cx, artifact, &policy).await?;
    let is_known = artifact.policy == Some(policy.policy)
        && artifact.verdict.as_ref().is_some_and(|known| known.trust == verdict.trust);
    if !is_known {
        // The engine reads it again when it creates the cell.
        let mut tx = cx.platform.store.begin().await?;
        tx.artifact_judged(artifact, &verdict, policy.policy).await?;
        tx.commit().await?;
    }
    let stands = match verdict.trust {
        Trust::Trusted => true,
        Trust::Unsigned => policy.lets_unsigned(artifact.state),
        Trust::Untrusted => false,
    };
    if !stands {
        let why = format!("the artifact is {}, and {}", artifact.state, verdict.message);
        return Err(Error::new(Code::Untrusted, why));
    }
    Ok(())
}

/// Ensures that a release may start: the artifacts of `components` if given, otherwise all of them.
pub(crate) async fn ensure_release_startable(
    cx: &Cx,
    release: AppVersionId,
    manifest: &Manifest,
    components: Option<&BTreeSet<&str>>,
    start: Start,
) -> Result<()> {
    let store = &cx.platform.store;
    let roots: Option<BTreeSet<&str>> = components.map(|keys| {
        let of_them = manifest.components.iter().filter(|component| keys.contains(component.key.as_str()));
        of_them
            .filter_map(|component| match &component.runtime.root {
                RootFrom::Artifact(name) => Some(name.as_str()),
                RootFrom::Host(_) => None,
            })
            .collect()
    });
    for (name, id) in store.app_version_artifacts(release).await? {
        if roots.as_ref().is_some_and(|roots| !roots.contains(name.as_str())) {
            continue;
        }
        let artifact = store.artifact_lookup(id).await?;
        let artifact =
            artifact.ok_or_else(|| Error::from(StoreError::Corrupt("an artifact of a release")))?;
        ensure_startable(cx, &artifact, start).await.map_err(|error| {
            let detail = format!("{name} of {} {}: {}", manifest.app, manifest.version, error.detail);
            Error { detail, ..error }
        })?;
    }
    Ok(())
}
