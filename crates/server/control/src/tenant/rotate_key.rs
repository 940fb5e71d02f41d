//! Rotate a tenant's encryption key, and reseal its data.
use muster_api::Code;
use muster_authz::Permission;
use muster_model::Scope;
use muster_model::event::EventType;
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `tenant_rotate_key`. The old versions remain until the data is resealed, so that concurrent reads still succeed.
pub async fn rotate_key(cx: &Cx, reference: &str) -> Result<PreparedCommand> {
    let mut tenant = cx.tenant(reference).await?;
    cx.authorize(Permission::TenantRotateKey, Scope::Tenant(tenant.id), "tenant")?;
    let platform = cx.platform.clone();
    let owner = tenant.id.to_string();
    let newest = platform.store.sealing_key_newest(&owner).await?;
    let newest = newest.ok_or_else(|| Error::new(Code::InvalidState, "the tenant has no key"))?;
    let key = platform.envelope.make(&platform.env, &owner, newest.key_version + 1)?;
    tenant.updated_at = cx.now;
    tenant.version += 1;
    let told = json!({"key_version": key.key_version});
    let (subject, id, at) = (path(&tenant), tenant.id, cx.now);
    let before = json!({"key_version": newest.key_version});
    let commit = PreparedCommand::new(Scope::Tenant(id), target("tenant", id, &tenant.slug), move |tx| {
        Box::pin(async move {
            tx.sealing_key_insert(&key, at).await?;
            tx.tenant_update(&tenant).await?;
            Ok(Answer::new(&tenant))
        })
    });
    Ok(commit.before(&before).event(cx, EventType::TenantKeyRotated, subject, told))
}
