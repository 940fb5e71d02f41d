//! List role bindings.

use muster_api::role_binding::{RoleBindingListQuery, RoleBindingPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `role_binding_list`.
pub async fn list(cx: &Cx, query: RoleBindingListQuery) -> Result<Answer> {
    let scope = cx.scope(query.tenant.as_deref(), query.project.as_deref()).await?;
    cx.authorize(Permission::RoleBindingList, scope, "scope")?;
    let list = format!("role bindings {scope:?}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.role_binding_list(page, scope).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |binding| binding.id.uuid()).await?;
    Ok(Answer::new(&RoleBindingPage { items: items.iter().map(view).collect(), next_page_token }))
}
