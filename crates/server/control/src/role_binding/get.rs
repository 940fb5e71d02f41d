//! Show a role binding.

use muster_authz::Permission;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `role_binding_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    let binding = cx.role_binding(reference).await?;
    cx.authorize(Permission::RoleBindingGet, binding.scope, "role binding")?;
    Ok(Answer::new(&view(&binding)))
}
