//! Create an app that a project publishes.
use muster_api::app::AppCreate;
use muster_authz::Permission;
use muster_db::{FoundApp, StoreError};
use muster_ids::AppId;
use muster_model::app::{App, Audience};
use muster_model::event::EventType;
use serde_json::json;

use super::{path, view};
use crate::commit::target;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `app_create`. A unique index decides whether the slug is free, so one of two concurrent requests wins.
pub async fn create(cx: &Cx, project: &str, body: AppCreate) -> Result<PreparedCommand> {
    let (project_id, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppCreate, scope, "project")?;
    let app = App {
        id: cx.platform.env.id::<AppId>(),
        tenant_id: scope.tenant().ok_or_else(|| Error::not_found("project"))?,
        project_id,
        display_name: body.display_name.unwrap_or_else(|| body.slug.clone()),
        slug: body.slug,
        description: body.description.unwrap_or_default(),
        audience: body.audience.unwrap_or(Audience::Project),
        labels: checked_labels(body.labels)?,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let told = json!({"slug": app.slug, "audience": app.audience});
    let (subject, named) = (path(&app), target("app", app.id, &app.slug));
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.app_insert(&app).await.map_err(|error| match error {
                StoreError::Conflict(_) => taken(&app.slug),
                error => Error::from(error),
            })?;
            let made = FoundApp { app, active_version: None, canary_version: None, entitled: false };
            Ok(Answer::new(&view(&made)))
        })
    });
    Ok(commit.event(cx, EventType::AppCreated, subject, told))
}

/// Returns the error for a slug in use. The catalog has one namespace, so this error reveals no more of a hidden app than
/// its slug.
fn taken(slug: &str) -> Error {
    Error::new(
        muster_api::Code::NameTaken,
        format!(
            "an app of the catalog, possibly one you have no access to, has the slug {slug}: choose another"
        ),
    )
}
