//! Change an app's description or audience.

use muster_api::app::AppUpdate;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::{path, published, view};
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `app_update`. A smaller audience hides the app from projects without an entitlement; the others still find it.
pub async fn update(cx: &Cx, project: &str, reference: &str, body: AppUpdate) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppUpdate, scope, "app")?;
    let mut found = published(cx, scope, project, reference).await?;
    cx.expect_version(found.app.version)?;
    let before = view(&found);
    let app = &mut found.app;
    let told = changed(
        &before,
        &[
            ("display_name", body.display_name.as_ref().map(|text| json!(text))),
            ("description", body.description.as_ref().map(|text| json!(text))),
            ("audience", body.audience.map(|audience| json!(audience))),
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
        ],
    );
    if let Some(text) = body.display_name {
        app.display_name = text;
    }
    if let Some(text) = body.description {
        app.description = text;
    }
    if let Some(audience) = body.audience {
        app.audience = audience;
    }
    if body.labels.is_some() {
        app.labels = checked_labels(body.labels)?;
    }
    app.updated_at = cx.now;
    app.version += 1;
    let (subject, named) = (path(app), target("app", app.id, &app.slug));
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            tx.app_update(&found.app).await?;
            Ok(Answer::new(&view(&found)))
        })
    });
    Ok(commit.event(cx, EventType::AppUpdated, subject, told))
}
