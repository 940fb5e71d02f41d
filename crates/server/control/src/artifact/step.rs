//! One state transition of an artifact: read all inputs, let the pure planner decide, and write through the command
//! pipeline.
use muster_api::Code;
use muster_db::{ArtifactRelease, StoreError};
use muster_model::artifact::{
    Artifact, ArtifactState, Change, Facts, Refusal, Step, TrustPolicy, Verdict, plan,
};
use muster_model::event::EventType;
use serde_json::json;

use super::{judged, path, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// A requested transition.
pub(super) struct Asked {
    pub(super) step: Step,
    pub(super) reason: String,
    /// Evidence of a smoke test, if one was named.
    pub(super) smoke: Option<muster_ids::WitnessId>,
}

/// Prepares the transition.
pub(super) async fn take(cx: &Cx, artifact: Artifact, asked: Asked) -> Result<PreparedCommand> {
    let store = &cx.platform.store;
    let policy = super::policy_of(cx, artifact.project_id).await?;
    let verdict = judged(cx, &artifact, &policy).await?;
    let lint: Vec<String> = super::lint::findings(cx, &artifact)
        .await?
        .into_iter()
        .filter(|finding| finding.error)
        .map(|finding| format!("{}: {}", finding.rule, finding.message))
        .collect();
    let active = store.artifact_active(artifact.repository_id, &artifact.line).await?;
    let active = active.filter(|active| active.id != artifact.id);
    let cells = store.artifact_cells(artifact.id).await?;
    let held_by: Vec<String> =
        cells.iter().map(|cell| format!("the cell {} was created from it", cell.name)).collect();
    let releases: Vec<(String, ArtifactState)> = store
        .artifact_releases(artifact.id)
        .await?
        .iter()
        .map(|release| (super::release_words(release), release.state))
        .collect();
    let smoke = asked.smoke.or(artifact.smoke_witness_id);
    let facts = Facts {
        policy: &policy,
        verdict: &verdict,
        lint: &lint,
        smoked: smoke.is_some(),
        held_by: &held_by,
        releases: &releases,
        active: active.as_ref(),
        now: cx.now,
    };
    let moves = plan(&artifact, asked.step, &facts).map_err(|refusal| refused(&refusal))?;
    let after = Artifact {
        state: moves.to,
        canary_percent: moves.percent,
        verdict: Some(verdict),
        policy: Some(policy.policy),
        smoke_witness_id: smoke,
        deprecated_at: match moves.to {
            ArtifactState::Deprecated => Some(cx.now),
            _ => artifact.deprecated_at,
        },
        updated_at: cx.now,
        ..artifact.clone()
    };
    let superseded = active.filter(|_| moves.supersedes);
    Ok(commit(cx, artifact, after, superseded, policy, asked.reason))
}

fn refused(refusal: &Refusal) -> Error {
    let code = match refusal {
        Refusal::Untrusted(_) => Code::Untrusted,
        Refusal::Lint(_) => Code::LintFailed,
        Refusal::NoSuchStep(_) | Refusal::NotSmoked(_) | Refusal::Held(_) => Code::InvalidState,
    };
    Error::new(code, refusal.message())
}

fn change(cx: &Cx, before: &Artifact, after: ArtifactState, reason: &str) -> Change {
    Change {
        before: Some(before.state),
        after,
        actor_id: cx.actor_id(),
        reason: reason.to_owned(),
        at: cx.now,
    }
}

fn told(
    before: &Artifact,
    after: ArtifactState,
    reason: &str,
    verdict: Option<&Verdict>,
) -> serde_json::Value {
    json!({
        "repository": before.repository,
        "digest": before.digest,
        "before": before.state,
        "after": after,
        "reason": reason,
        "trust": verdict.map(|verdict| verdict.trust.as_str()),
        "key_id": verdict.and_then(|verdict| verdict.key_id),
        "signature": verdict.and_then(|verdict| verdict.signature.clone()),
    })
}

fn commit(
    cx: &Cx,
    before: Artifact,
    after: Artifact,
    superseded: Option<Artifact>,
    policy: TrustPolicy,
    reason: String,
) -> PreparedCommand {
    let named = target("artifact", before.id, &before.repository);
    let (scope, now) = (before.scope(), cx.now);
    let mut of_it = told(&before, after.state, &reason, after.verdict.as_ref());
    let mut others = Vec::new();
    let change_of_it = change(cx, &before, after.state, &reason);
    let superseded = superseded.map(|old| {
        let why = format!("{} became active and replaced it", before.id);
        let changed = change(cx, &old, ArtifactState::Deprecated, &why);
        of_it["supersedes"] = serde_json::json!({"artifact_id": old.id, "digest": old.digest, "before": old.state,
            "after": ArtifactState::Deprecated});
        others.push((path(&old), told(&old, ArtifactState::Deprecated, &why, old.verdict.as_ref())));
        let new = Artifact {
            state: ArtifactState::Deprecated,
            superseded_by: Some(before.id),
            deprecated_at: Some(now),
            ..old.clone()
        };
        (old, new, changed)
    });
    let subject = path(&before);
    let retires = after.state == ArtifactState::Retired;
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            // Supersede the active artifact first: a unique index allows one per line.
            if let Some((old, new, changed)) = &superseded {
                tx.artifact_move(old, new, now).await.map_err(raced)?;
                tx.artifact_change(old.id, changed).await?;
            }
            tx.artifact_move(&before, &after, now).await.map_err(raced)?;
            tx.artifact_change(before.id, &change_of_it).await?;
            // A start checks the artifact's state under the same lock, so one of the two transactions detects the other.
            let cells = if retires { tx.artifact_cells_now(before.id).await? } else { Vec::new() };
            if let Some(cell) = cells.first() {
                let why = format!("it is still in use: the cell {cell} was created from it");
                return Err(Error::new(Code::InvalidState, why));
            }
            // The same for releases: a concurrent promotion locks its artifacts until it commits.
            let falls =
                retires || (before.state, after.state) == (ArtifactState::Canary, ArtifactState::Staged);
            let releases = if falls { tx.artifact_releases_now(before.id).await? } else { Vec::new() };
            let ahead = |release: &&ArtifactRelease| retires || release.state > ArtifactState::Staged;
            if let Some(release) = releases.iter().find(ahead) {
                let why = format!(
                    "it is still in use: {} uses it and is {}",
                    super::release_words(release),
                    release.state
                );
                return Err(Error::new(Code::InvalidState, why));
            }
            let shown = Artifact { version: before.version + 1, ..after };
            Ok(Answer::new(&view(&shown, &policy)))
        })
    });
    let mut commit = commit.event(cx, EventType::ArtifactChanged, subject, of_it.clone());
    for (subject, data) in others {
        commit = commit.event(cx, EventType::ArtifactChanged, subject, data);
    }
    commit.detail(of_it)
}

/// Maps a lost race to an error: the artifact changed, or another of its line became active, since it was read.
pub(super) fn raced(error: StoreError) -> Error {
    match error {
        StoreError::Stale | StoreError::Conflict(_) => Error::new(
            Code::InvalidState,
            "it, or the active artifact of its line, changed at this moment: read it again, and repeat",
        ),
        error => error.into(),
    }
}
