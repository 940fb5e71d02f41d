//! Create a service account.
use muster_api::service_account::ServiceAccountCreate;
use muster_authz::Permission;
use muster_ids::ServiceAccountId;
use muster_model::ServiceAccount;
use muster_model::event::EventType;
use serde_json::json;

use super::{allow_list, path};
use crate::commit::target;
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `service_account_create`.
pub async fn create(cx: &Cx, project: &str, body: ServiceAccountCreate) -> Result<PreparedCommand> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ServiceAccountCreate, scope, "project")?;
    let tenant_id = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    let account = ServiceAccount {
        id: cx.platform.env.id::<ServiceAccountId>(),
        tenant_id,
        project_id: project,
        name: body.name,
        description: body.description.unwrap_or_default(),
        permissions: allow_list(cx, scope, "/permissions", body.permissions)?,
        disabled: false,
        labels: checked_labels(body.labels)?,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let (subject, told) = (path(&account), json!({"name": account.name, "permissions": account.permissions}));
    let commit = PreparedCommand::new(
        account.scope(),
        target("service_account", account.id, &account.name),
        move |tx| {
            Box::pin(async move {
                tx.service_account_insert(&account).await?;
                Ok(Answer::new(&account))
            })
        },
    );
    Ok(commit.event(cx, EventType::ServiceAccountCreated, subject, told))
}
