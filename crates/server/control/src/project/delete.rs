//! Delete a project and, optionally, everything in it.

use std::collections::BTreeMap;

use muster_api::tenant::DeleteQuery;
use muster_authz::Permission;
use muster_model::event::EventType;
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::tenant::{
    counted, refuse_if_alive, refuse_if_held, refuse_if_not_empty, refuse_if_running, removed_view,
    still_alive,
};
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `project_delete`.
pub async fn delete(cx: &Cx, reference: &str, query: DeleteQuery) -> Result<PreparedCommand> {
    let project = cx.project(reference).await?;
    cx.authorize(Permission::ProjectDelete, project.scope(), "project")?;
    cx.expect_version(project.version)?;
    let cascade = query.cascade.unwrap_or(false);
    let (subject, told) = (path(&project), json!({"name": project.name, "cascade": cascade}));
    let (id, version) = (project.id, project.version);
    let before = project.clone();
    let commit = PreparedCommand::new(project.scope(), target("project", id, &project.name), move |tx| {
        Box::pin(async move {
            refuse_if_alive("project", tx.allocation_live_of_project(id).await?)?;
            refuse_if_running("project", tx.instance_live_of_project_now(id).await?)?;
            refuse_if_held("project", tx.app_held_by_others(id).await?)?;
            let mut removed = BTreeMap::new();
            removed.insert("runtime_secrets", counted(tx.runtime_secret_delete_of_project(id).await?));
            removed.insert("secrets", counted(tx.secret_delete_of_project(id).await?));
            removed.insert("keys", counted(tx.key_delete_of_project(id).await?));
            removed.insert("instances", counted(tx.instance_delete_of_project(id).await?));
            removed.insert("adapters", counted(tx.adapter_delete_of_project(id).await?));
            removed.insert("entitlements", counted(tx.entitlement_delete_of_project(id).await?));
            let apps = tx.app_delete_of_project(id).await;
            removed.insert("apps", counted(apps.map_err(|error| still_alive("project", error))?));
            removed.insert("cells", counted(tx.cell_delete_of_project(id).await?));
            removed.insert("repositories", counted(tx.repository_delete_of_project(id).await?));
            let networks = tx.network_delete_of_project(id).await;
            removed.insert("networks", counted(networks.map_err(|error| still_alive("project", error))?));
            removed.insert("ssh_keys", counted(tx.ssh_key_delete_of_project(id).await?));
            removed.insert("allocations", counted(tx.allocation_delete_of_project(id).await?));
            removed.insert("webhooks", tx.webhook_delete_of_project(id).await?);
            removed.insert("tokens", tx.token_delete_of_project(id).await?);
            removed.insert("role_bindings", tx.role_binding_delete_of_project(id).await?);
            removed.insert("service_accounts", tx.service_account_delete_of_project(id).await?);
            refuse_if_not_empty("project", &removed, cascade)?;
            tx.quota_delete_of_project(id).await?;
            tx.project_delete(id, version).await.map_err(|error| still_alive("project", error))?;
            Ok(Answer::new(&removed_view(&id, removed)))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::ProjectDeleted, subject, told))
}
