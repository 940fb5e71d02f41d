//! Delete a role binding.

use std::collections::BTreeMap;

use muster_authz::Permission;
use muster_model::Role;
use muster_model::event::EventType;
use serde_json::json;

use super::{only_by_the_tenant, view};
use crate::commit::target;
use crate::tenant::removed_view;
use crate::user::keep_an_operator;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `role_binding_delete`.
pub async fn delete(cx: &Cx, reference: &str) -> Result<PreparedCommand> {
    let binding = cx.role_binding(reference).await?;
    cx.authorize(Permission::RoleBindingDelete, binding.scope, "role binding")?;
    only_by_the_tenant(cx, binding.scope)?;
    cx.expect_version(1)?;
    let (id, role, user) = (binding.id, binding.role, binding.user_id);
    let tenant = binding.scope.tenant();
    let told = json!({"user_id": user, "user_email": binding.user_email, "role": role.as_str()});
    let before = view(&binding);
    let commit = PreparedCommand::new(binding.scope, target("role_binding", id, role.as_str()), move |tx| {
        Box::pin(async move {
            if role == Role::PlatformOperator {
                keep_an_operator(tx, user).await?;
            }
            tx.role_binding_delete(id).await?;
            if let Some(tenant) = tenant {
                tx.bump_desired_people(tenant).await?;
            }
            Ok(Answer::new(&removed_view(&id, BTreeMap::new())))
        })
    });
    Ok(commit.before(&before).revokes().event(
        cx,
        EventType::RoleBindingDeleted,
        format!("/v1/role-bindings/{id}"),
        told,
    ))
}
