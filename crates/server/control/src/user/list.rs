//! List users: a tenant's, or all of them for operators.

use muster_api::user::{UserListQuery, UserPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;
use muster_model::Scope;

use super::view;
use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `user_list`.
pub async fn list(cx: &Cx, query: UserListQuery) -> Result<Answer> {
    let scope = match &query.tenant {
        Some(tenant) => Scope::Tenant(cx.tenant(tenant).await?.id),
        None if cx.is_operator() => Scope::Platform,
        None => cx.principal()?.tenant().map_or(Scope::Platform, Scope::Tenant),
    };
    cx.authorize(Permission::UserList, scope, "tenant")?;
    let list = format!("users {scope:?} {:?}", query.labels);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let mut items = cx.platform.store.user_list(page, scope.tenant(), &labels).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |user| user.id.uuid()).await?;
    Ok(Answer::new(&UserPage { items: items.iter().map(view).collect(), next_page_token }))
}
