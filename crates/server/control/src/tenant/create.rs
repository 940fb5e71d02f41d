//! Create a tenant, with its encryption key.

use muster_api::tenant::TenantCreate;
use muster_authz::Permission;
use muster_ids::TenantId;
use muster_model::event::EventType;
use muster_model::{Scope, Tenant};
use serde_json::json;

use super::{checked_labels, path};
use crate::commit::target;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `tenant_create`.
pub async fn create(cx: &Cx, body: TenantCreate) -> Result<PreparedCommand> {
    cx.authorize(Permission::TenantCreate, Scope::Platform, "tenant")?;
    let tenant = Tenant {
        id: cx.platform.env.id::<TenantId>(),
        display_name: body.display_name.unwrap_or_else(|| body.slug.clone()),
        slug: body.slug,
        labels: checked_labels(body.labels)?,
        created_at: cx.now,
        updated_at: cx.now,
        version: 1,
    };
    let key = cx.platform.envelope.make(&cx.platform.env, &tenant.id.to_string(), 1)?;
    let (subject, told) = (path(&tenant), json!({"slug": tenant.slug}));
    let commit = PreparedCommand::new(
        Scope::Tenant(tenant.id),
        target("tenant", tenant.id, &tenant.slug),
        move |tx| {
            Box::pin(async move {
                tx.tenant_insert(&tenant).await?;
                tx.sealing_key_insert(&key, tenant.created_at).await?;
                Ok(Answer::new(&tenant))
            })
        },
    );
    Ok(commit.event(cx, EventType::TenantCreated, subject, told))
}
