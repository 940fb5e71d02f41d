//! Change a tenant's description.

use muster_api::tenant::TenantUpdate;
use muster_authz::Permission;
use muster_model::Scope;
use muster_model::event::EventType;
use serde_json::json;

use super::{checked_labels, path};
use crate::commit::{changed, target};
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `tenant_update`.
pub async fn update(cx: &Cx, reference: &str, body: TenantUpdate) -> Result<PreparedCommand> {
    let mut tenant = cx.tenant(reference).await?;
    cx.authorize(Permission::TenantUpdate, Scope::Tenant(tenant.id), "tenant")?;
    cx.expect_version(tenant.version)?;
    let told = changed(
        &tenant,
        &[
            ("display_name", body.display_name.as_ref().map(|name| json!(name))),
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
        ],
    );
    if let Some(name) = body.display_name {
        tenant.display_name = name;
    }
    if body.labels.is_some() {
        tenant.labels = checked_labels(body.labels)?;
    }
    tenant.updated_at = cx.now;
    tenant.version += 1;
    let subject = path(&tenant);
    let commit = PreparedCommand::new(
        Scope::Tenant(tenant.id),
        target("tenant", tenant.id, &tenant.slug),
        move |tx| {
            Box::pin(async move {
                tx.tenant_update(&tenant).await?;
                Ok(Answer::new(&tenant))
            })
        },
    );
    Ok(commit.event(cx, EventType::TenantUpdated, subject, told))
}
