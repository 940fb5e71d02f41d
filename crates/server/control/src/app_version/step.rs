//! One state transition of a release: read all inputs, let the pure planner decide, and write through the command pipeline.
use muster_api::Code;
use muster_db::{FoundVersion, StoreError};
use muster_ids::ArtifactId;
use muster_model::app::{App, AppVersion};
use muster_model::artifact::{ArtifactState, Change, Refusal, Step};
use muster_model::event::EventType;
use muster_model::release::{Part, ReleaseFacts, plan, still_used};
use serde_json::{Value, json};

use super::{path, view};
use crate::artifact::{judged, policy_of};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// A requested transition.
pub(super) struct Asked {
    pub(super) step: Step,
    pub(super) reason: String,
}

/// Prepares the transition.
pub(super) async fn take(cx: &Cx, app: App, version: AppVersion, asked: Asked) -> Result<PreparedCommand> {
    let store = &cx.platform.store;
    let policy = policy_of(cx, app.project_id).await?;
    let mut parts = Vec::new();
    let mut ids = Vec::new();
    for (name, id) in store.app_version_artifacts(version.id).await? {
        let artifact = store.artifact_lookup(id).await?;
        let artifact =
            artifact.ok_or_else(|| Error::from(StoreError::Corrupt("an artifact of a release")))?;
        // Verify trust again: a key may have been revoked since the artifact was promoted.
        let verdict = judged(cx, &artifact, &policy).await?;
        parts.push(Part { name: name.clone(), state: artifact.state, verdict });
        ids.push((name, id));
    }
    let active = store.app_version_in_state(app.project_id, app.id, ArtifactState::Active).await;
    let canary = store.app_version_in_state(app.project_id, app.id, ArtifactState::Canary).await;
    let active = active?.map(|found| found.version);
    let canary = canary?.map(|found| found.version);
    let used = store.app_version_use(version.id).await?;
    let facts = ReleaseFacts {
        policy: &policy,
        parts: &parts,
        instances: used.instances,
        members: used.members,
        active: active.as_ref(),
        canary: canary.as_ref(),
        now: cx.now,
    };
    let moves = plan(&version, asked.step, &facts).map_err(|refusal| refused(&refusal))?;
    let after = AppVersion {
        state: moves.to,
        canary_percent: moves.percent,
        deprecated_at: match moves.to {
            ArtifactState::Deprecated => Some(cx.now),
            _ => version.deprecated_at,
        },
        updated_at: cx.now,
        ..version.clone()
    };
    let forward = matches!(asked.step, Step::Promote { .. });
    let superseded = active.filter(|_| moves.supersedes);
    let turn = Turn { app, before: version, after, superseded, parts: ids, forward, reason: asked.reason };
    Ok(commit(cx, turn, used.instances))
}

fn refused(refusal: &Refusal) -> Error {
    let code = match refusal {
        Refusal::Untrusted(_) => Code::Untrusted,
        Refusal::Lint(_) => Code::LintFailed,
        Refusal::NoSuchStep(_) | Refusal::NotSmoked(_) | Refusal::Held(_) => Code::InvalidState,
    };
    Error::new(code, refusal.message())
}

/// A decided transition.
struct Turn {
    app: App,
    before: AppVersion,
    after: AppVersion,
    /// Active release that it supersedes.
    superseded: Option<AppVersion>,
    parts: Vec<(String, ArtifactId)>,
    forward: bool,
    reason: String,
}

fn change(cx: &Cx, before: &AppVersion, after: ArtifactState, reason: &str) -> Change {
    Change {
        before: Some(before.state),
        after,
        actor_id: cx.actor_id(),
        reason: reason.to_owned(),
        at: cx.now,
    }
}

fn told(app: &App, before: &AppVersion, after: ArtifactState, reason: &str) -> Value {
    json!({"app": app.slug, "name": before.name, "digest": before.digest, "before": before.state, "after": after,
        "reason": reason})
}

fn commit(cx: &Cx, turn: Turn, instances: i64) -> PreparedCommand {
    let Turn { app, before, after, superseded, parts, forward, reason } = turn;
    let (scope, now) = (before.scope(), cx.now);
    let (subject, named) = (path(&before), target("app_version", before.id, &before.name));
    let mut of_it = told(&app, &before, after.state, &reason);
    if let Some(percent) = after.canary_percent {
        of_it["percent"] = json!(percent);
    }
    let mut of_old = None;
    let changed = change(cx, &before, after.state, &reason);
    let superseded = superseded.map(|old| {
        let why = format!("{} became active and replaced it", before.name);
        of_it["supersedes"] = json!({"app_version_id": old.id, "name": old.name, "before": old.state,
            "after": ArtifactState::Deprecated});
        of_old = Some((path(&old), told(&app, &old, ArtifactState::Deprecated, &why)));
        let changed = change(cx, &old, ArtifactState::Deprecated, &why);
        let new = AppVersion {
            state: ArtifactState::Deprecated,
            superseded_by: Some(before.id),
            deprecated_at: Some(now),
            ..old.clone()
        };
        (old, new, changed)
    });
    let event = if forward { EventType::AppVersionPromoted } else { EventType::AppVersionDemoted };
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            // Locks the artifacts in their states until commit: a concurrent demotion of one of them then finds this
            // release.
            for (name, artifact) in parts.iter().filter(|_| forward) {
                if !tx.artifact_serves(*artifact, after.state).await? {
                    return Err(fell_behind(name));
                }
            }
            // Supersede the active release first: a unique index allows one per app.
            if let Some((old, new, changed)) = &superseded {
                tx.app_version_move(old, new, now).await.map_err(raced)?;
                tx.app_version_change(old.id, changed).await?;
            }
            tx.app_version_move(&before, &after, now).await.map_err(raced)?;
            tx.app_version_change(before.id, &changed).await?;
            // A start checks the release's state under the same lock, so one of the two transactions detects the other.
            if after.state == ArtifactState::Retired {
                let used = tx.app_version_use(before.id).await?;
                if let Some(says) = still_used(used.instances, used.members) {
                    return Err(Error::new(Code::InvalidState, says));
                }
            }
            let shown = AppVersion { version: before.version + 1, ..after };
            Ok(Answer::new(&view(&app, &FoundVersion { version: shown, instances })))
        })
    });
    let mut commit = commit.event(cx, event, subject, of_it.clone());
    if let Some((subject, data)) = of_old {
        commit = commit.event(cx, EventType::AppVersionDemoted, subject, data);
    }
    commit.detail(of_it)
}

fn fell_behind(name: &str) -> Error {
    let says = format!(
        "the artifact {name} changed at this moment and is no longer promoted far enough: read it again"
    );
    Error::new(Code::InvalidState, says)
}

/// Maps a lost race to an error: the release changed, or another became active or canary, since it was read.
fn raced(error: StoreError) -> Error {
    match error {
        StoreError::Stale | StoreError::Conflict(_) => Error::new(
            Code::InvalidState,
            "it, or the app's active release or canary, changed at this moment: read it again, and repeat",
        ),
        error => error.into(),
    }
}
