//! Role bindings.

mod create;
mod delete;
mod get;
mod list;

pub use create::create;
pub use delete::delete;
pub use get::get;
pub use list::list;

use muster_api::Code;
use muster_api::role_binding as api;
use muster_model::{Role, RoleBinding, Scope};

use crate::{Cx, Error, Result};

pub(crate) fn view(binding: &RoleBinding) -> api::RoleBinding {
    api::RoleBinding {
        id: binding.id,
        user_id: binding.user_id,
        user_email: binding.user_email.clone(),
        role: binding.role,
        tenant_id: binding.scope.tenant(),
        project_id: binding.scope.project(),
        created_at: binding.created_at,
        version: 1,
    }
}

/// Ensures that only the tenant's own admins change a project's roles; operators change those of the platform and of
/// tenants.
pub(crate) fn only_by_the_tenant(cx: &Cx, scope: Scope) -> Result<()> {
    if scope.project().is_none() || cx.holds(&[Role::TenantAdmin, Role::ProjectAdmin], scope) {
        return Ok(());
    }
    Err(Error::new(
        Code::PermissionDenied,
        "only admins of the project or its tenant can grant and revoke its roles",
    ))
}
