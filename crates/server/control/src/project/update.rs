//! Change a project's description.

use muster_api::project::ProjectUpdate;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::path;
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `project_update`.
pub async fn update(cx: &Cx, reference: &str, body: ProjectUpdate) -> Result<PreparedCommand> {
    let mut project = cx.project(reference).await?;
    cx.authorize(Permission::ProjectUpdate, project.scope(), "project")?;
    cx.expect_version(project.version)?;
    let told = changed(
        &project,
        &[
            ("display_name", body.display_name.as_ref().map(|name| json!(name))),
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
        ],
    );
    if let Some(name) = body.display_name {
        project.display_name = name;
    }
    if body.labels.is_some() {
        project.labels = checked_labels(body.labels)?;
    }
    project.updated_at = cx.now;
    project.version += 1;
    let subject = path(&project);
    let commit =
        PreparedCommand::new(project.scope(), target("project", project.id, &project.name), move |tx| {
            Box::pin(async move {
                tx.project_update(&project).await?;
                Ok(Answer::new(&project))
            })
        });
    Ok(commit.event(cx, EventType::ProjectUpdated, subject, told))
}
