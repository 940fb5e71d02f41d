//! Publish a release.

use muster_api::Code;
use muster_api::app::{AppVersionPublish, Published};
use muster_authz::Permission;
use muster_db::{FoundVersion, StoreError};
use muster_ids::AppVersionId;
use muster_model::app::{AppVersion, manifest_digest};
use muster_model::artifact::{ArtifactState, Change};
use muster_model::event::EventType;
use serde_json::{Value, json};

use super::lint::{examined, refused};
use super::{path, view};
use crate::app::published as published_app;
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `app_version_publish`. A published release is immutable but for its state.
pub async fn publish(cx: &Cx, project: &str, app: &str, body: AppVersionPublish) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppVersionPublish, scope, "app")?;
    let app = published_app(cx, scope, project, app).await?.app;
    let document = Value::Object(body.manifest);
    let (faults, parts) = examined(cx, &app, &document).await?;
    if body.dry_run.unwrap_or(false) {
        let told = json!({"dry_run": true, "errors": faults.iter().filter(|fault| fault.error).count()});
        let answer = Answer::new(&Published { app_version: None, faults });
        let commit = PreparedCommand::new(scope, target("app", app.id, &app.slug), move |_| {
            Box::pin(async move { Ok(answer) })
        });
        return Ok(commit.detail(told));
    }
    if faults.iter().any(|fault| fault.error) {
        return Err(refused(&faults));
    }
    let name = document["version"].as_str().unwrap_or_default().to_owned();
    let version = AppVersion {
        id: cx.platform.env.id::<AppVersionId>(),
        tenant_id: app.tenant_id,
        project_id: app.project_id,
        app_id: app.id,
        name,
        digest: manifest_digest(&document),
        manifest: document,
        state: ArtifactState::Draft,
        canary_percent: None,
        superseded_by: None,
        deprecated_at: None,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let change = Change {
        before: None,
        after: ArtifactState::Draft,
        actor_id: cx.actor_id(),
        reason: "it was published".to_owned(),
        at: cx.now,
    };
    let told = json!({"app": app.slug, "name": version.name, "digest": version.digest});
    let (subject, named) = (path(&version), target("app_version", version.id, &version.name));
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            for (name, artifact) in &parts {
                if !tx.artifact_serves(*artifact, ArtifactState::Draft).await? {
                    return Err(out_of_use(name));
                }
            }
            tx.app_version_publish(&version, &parts, &change).await.map_err(|error| match error {
                StoreError::Conflict(_) => taken(&version.name),
                error => error.into(),
            })?;
            let shown = view(&app, &FoundVersion { version, instances: 0 });
            Ok(Answer::new(&Published { app_version: Some(shown), faults }))
        })
    });
    Ok(commit.event(cx, EventType::AppVersionPublished, subject, told))
}

fn out_of_use(name: &str) -> Error {
    Error::new(Code::InvalidState, format!("the artifact {name} was withdrawn concurrently: name another"))
}

fn taken(name: &str) -> Error {
    Error::new(
        Code::NameTaken,
        format!(
            "the release {name} was published at this moment, and a release never changes: choose another name"
        ),
    )
}
