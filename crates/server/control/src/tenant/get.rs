//! Show a tenant.

use muster_authz::Permission;
use muster_model::Scope;

use crate::{Answer, Cx, Result};

/// Handles `tenant_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    let tenant = cx.tenant(reference).await?;
    cx.authorize(Permission::TenantGet, Scope::Tenant(tenant.id), "tenant")?;
    Ok(Answer::new(&tenant))
}
