//! Delete a tenant and, optionally, everything in it. Its keys are destroyed; its audit chain remains.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_api::tenant::{DeleteQuery, Removed};
use muster_authz::Permission;
use muster_db::{AppHolds, StoreError};
use muster_model::Scope;
use muster_model::event::EventType;
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `tenant_delete`.
pub async fn delete(cx: &Cx, reference: &str, query: DeleteQuery) -> Result<PreparedCommand> {
    let tenant = cx.tenant(reference).await?;
    cx.authorize(Permission::TenantDelete, Scope::Tenant(tenant.id), "tenant")?;
    cx.expect_version(tenant.version)?;
    let cascade = query.cascade.unwrap_or(false);
    let (subject, told) = (path(&tenant), json!({"slug": tenant.slug, "cascade": cascade}));
    let (id, version, owner) = (tenant.id, tenant.version, tenant.id.to_string());
    let platform = cx.platform.clone();
    let before = tenant.clone();
    let commit = PreparedCommand::new(Scope::Tenant(id), target("tenant", id, &tenant.slug), move |tx| {
        Box::pin(async move {
            refuse_if_alive("tenant", tx.allocation_live_of_tenant(id).await?)?;
            refuse_if_running("tenant", tx.instance_live_of_tenant_now(id).await?)?;
            refuse_if_held("tenant", tx.app_held_by_other_tenants(id).await?)?;
            let mut removed = BTreeMap::new();
            removed.insert("runtime_secrets", counted(tx.runtime_secret_delete_of_tenant(id).await?));
            removed.insert("secrets", counted(tx.secret_delete_of_tenant(id).await?));
            removed.insert("keys", counted(tx.key_delete_of_tenant(id).await?));
            removed.insert("instances", counted(tx.instance_delete_of_tenant(id).await?));
            removed.insert("adapters", counted(tx.adapter_delete_of_tenant(id).await?));
            removed.insert("entitlements", counted(tx.entitlement_delete_of_tenant(id).await?));
            let apps = tx.app_delete_of_tenant(id).await;
            removed.insert("apps", counted(apps.map_err(|error| still_alive("tenant", error))?));
            removed.insert("cells", counted(tx.cell_delete_of_tenant(id).await?));
            removed.insert("repositories", counted(tx.repository_delete_of_tenant(id).await?));
            let networks = tx.network_delete_of_tenant(id).await;
            removed.insert("networks", counted(networks.map_err(|error| still_alive("tenant", error))?));
            removed.insert("ssh_keys", counted(tx.ssh_key_delete_of_tenant(id).await?));
            removed.insert("allocations", counted(tx.allocation_delete_of_tenant(id).await?));
            tx.quota_delete_of_tenant(id).await?;
            removed.insert("webhooks", tx.webhook_delete_of_tenant(id).await?);
            removed.insert("tokens", tx.token_delete_of_tenant(id).await?);
            removed.insert("role_bindings", tx.role_binding_delete_of_tenant(id).await?);
            removed.insert("service_accounts", tx.service_account_delete_of_tenant(id).await?);
            let projects = tx.project_delete_of_tenant(id).await;
            removed.insert("projects", projects.map_err(|error| still_alive("tenant", error))?);
            removed.insert("users", tx.user_delete_of_tenant(id).await?);
            refuse_if_not_empty("tenant", &removed, cascade)?;
            tx.sealing_key_delete_of(&owner).await?;
            tx.tenant_delete(id, version).await?;
            platform.envelope.forget(&owner);
            Ok(Answer::new(&removed_view(&id, removed)))
        })
    });
    Ok(commit.before(&before).revokes().event(cx, EventType::TenantDeleted, subject, told))
}

/// Rejects a delete while allocations are live: deleting a row does not free the node, which needs a witnessed release. So
/// no cascade includes them.
pub(crate) fn refuse_if_alive(noun: &str, alive: i64) -> Result<()> {
    if alive == 0 {
        return Ok(());
    }
    let allocations = if alive == 1 { "live allocation" } else { "live allocations" };
    let detail =
        format!("the {noun} holds {alive} {allocations}, which no cascade removes: release them first");
    Err(Error::new(Code::NotEmpty, detail))
}

/// Rejects a delete while instances are live, for the same reason.
pub(crate) fn refuse_if_running(noun: &str, running: i64) -> Result<()> {
    if running == 0 {
        return Ok(());
    }
    let instances = if running == 1 { "live instance" } else { "live instances" };
    let detail =
        format!("the {noun} holds {running} {instances}, which no cascade removes: decommission them first");
    Err(Error::new(Code::NotEmpty, detail))
}

/// Rejects a delete while other projects use apps published here: the publisher cannot end that.
pub(crate) fn refuse_if_held(noun: &str, held: AppHolds) -> Result<()> {
    let AppHolds { entitlements, instances } = held;
    if entitlements == 0 && instances == 0 {
        return Ok(());
    }
    let detail = format!(
        "the {noun} publishes apps that others use, which no cascade removes: {entitlements} entitlements \
         that are not revoked and {instances} instances on record; their projects must revoke and remove \
         them"
    );
    Err(Error::new(Code::NotEmpty, detail))
}

/// Maps a foreign key error: an allocation created meanwhile references its project.
pub(crate) fn still_alive(noun: &str, error: StoreError) -> Error {
    match error {
        StoreError::Gone(_) => Error::new(
            Code::NotEmpty,
            format!("resources were created in the {noun} meanwhile: check it, and repeat"),
        ),
        error => error.into(),
    }
}

pub(crate) fn counted(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Rejects a delete of a non-empty resource. The counts come from deleting inside the transaction that is rolled back here,
/// so there is no race.
pub(crate) fn refuse_if_not_empty(
    noun: &str,
    removed: &BTreeMap<&'static str, i64>,
    cascade: bool,
) -> Result<()> {
    let held: Vec<String> = removed
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(noun, count)| format!("{count} {noun}"))
        .collect();
    if held.is_empty() || cascade {
        return Ok(());
    }
    let detail =
        format!("the {noun} still holds {}: remove them first, or repeat with cascade=true", held.join(", "));
    Err(Error::new(Code::NotEmpty, detail))
}

pub(crate) fn removed_view(id: &impl std::fmt::Display, removed: BTreeMap<&'static str, i64>) -> Removed {
    let removed = removed.into_iter().filter(|(_, count)| *count > 0);
    Removed { id: id.to_string(), removed: removed.map(|(noun, count)| (noun.to_owned(), count)).collect() }
}
