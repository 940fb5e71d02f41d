//! Bind a role to a user. No actor can grant a role that exceeds their own scope.

use muster_api::Code;
use muster_api::role_binding::RoleBindingCreate;
use muster_authz::Permission;
use muster_db::LOGINS_OF_PROJECT;
use muster_ids::RoleBindingId;
use muster_model::event::EventType;
use muster_model::{Role, RoleBinding, Scope};
use serde_json::json;

use super::{only_by_the_tenant, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `role_binding_create`.
pub async fn create(cx: &Cx, body: RoleBindingCreate) -> Result<PreparedCommand> {
    let role = body.role;
    let scope = cx.scope(body.tenant.as_deref(), body.project.as_deref()).await?;
    // A role is limited to its scope, so permission to bind at a scope never grants more than that.
    cx.authorize(Permission::RoleBindingCreate, scope, "scope")?;
    only_by_the_tenant(cx, scope)?;
    if !role.fits(scope) {
        let needs = match role {
            Role::PlatformOperator => "neither tenant nor project",
            Role::TenantAdmin => "a tenant",
            Role::ProjectAdmin | Role::ProjectViewer => "a project",
        };
        return Err(Error::field("/role", format!("{} is bound with {needs}", role.as_str())));
    }
    let user =
        cx.user(&body.user).await.map_err(|_| Error::field("/user", "there is no such person here"))?;
    if user.tenant_id != scope.tenant() {
        return Err(Error::field("/user", "there is no such person here"));
    }
    ensure_admins_within_limit(cx, role, scope).await?;
    let binding = RoleBinding {
        id: cx.platform.env.id::<RoleBindingId>(),
        user_id: user.id,
        user_email: user.email,
        role,
        scope,
        created_at: cx.now,
    };
    let tenant = scope.tenant();
    let subject = format!("/v1/role-bindings/{}", binding.id);
    let told = json!({"user_id": binding.user_id, "user_email": binding.user_email, "role": role.as_str()});
    let commit = PreparedCommand::new(scope, target("role_binding", binding.id, role.as_str()), move |tx| {
        Box::pin(async move {
            tx.role_binding_insert(&binding).await?;
            if let Some(tenant) = tenant {
                tx.bump_desired_people(tenant).await?;
            }
            Ok(Answer::new(&view(&binding)))
        })
    });
    Ok(commit.revokes().event(cx, EventType::RoleBindingCreated, subject, told))
}

/// Maximum number of a tenant's admins, and of a project's: each has a login in the project's cells, and every node with one of
/// them receives it.
const MOST_ADMINS: i64 = LOGINS_OF_PROJECT / 2;

async fn ensure_admins_within_limit(cx: &Cx, role: Role, scope: Scope) -> Result<()> {
    let whose = match (role, scope) {
        (Role::TenantAdmin, Scope::Tenant(_)) => "tenant",
        (Role::ProjectAdmin, Scope::Project(..)) => "project",
        _ => return Ok(()),
    };
    let count = cx.platform.store.role_binding_count(role, scope).await?;
    if count < MOST_ADMINS {
        return Ok(());
    }
    let detail = format!(
        "the {whose} has {count} admins, which is the most: remove one first (muster role-binding delete)"
    );
    Err(Error::new(Code::QuotaExceeded, detail))
}
