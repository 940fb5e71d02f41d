//! Create a project in a tenant.

use muster_api::project::ProjectCreate;
use muster_authz::Permission;
use muster_ids::ProjectId;
use muster_model::event::EventType;
use muster_model::{Project, Scope};
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `project_create`.
pub async fn create(cx: &Cx, tenant: &str, body: ProjectCreate) -> Result<PreparedCommand> {
    let tenant = cx.tenant(tenant).await?;
    cx.authorize(Permission::ProjectCreate, Scope::Tenant(tenant.id), "tenant")?;
    let project = Project {
        id: cx.platform.env.id::<ProjectId>(),
        tenant_id: tenant.id,
        tenant_slug: tenant.slug,
        display_name: body.display_name.unwrap_or_else(|| body.name.clone()),
        name: body.name,
        labels: checked_labels(body.labels)?,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let (subject, told) = (path(&project), json!({"name": project.name}));
    let commit =
        PreparedCommand::new(project.scope(), target("project", project.id, &project.name), move |tx| {
            Box::pin(async move {
                tx.project_insert(&project).await?;
                Ok(Answer::new(&project))
            })
        });
    Ok(commit.event(cx, EventType::ProjectCreated, subject, told))
}
