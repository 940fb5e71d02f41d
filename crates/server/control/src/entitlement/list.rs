//! List a project's entitlements, or those to the apps that it publishes.

use muster_api::entitlement::{EntitlementListQuery, EntitlementPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `entitlement_list`.
pub async fn list(cx: &Cx, project: &str, query: EntitlementListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::EntitlementList, scope, "project")?;
    let published = query.published.unwrap_or(false);
    let list = format!("entitlements {project} {published}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let store = &cx.platform.store;
    let items = match published {
        true => store.entitlement_list_published(page, project).await,
        false => store.entitlement_list(page, project).await,
    };
    let mut items = items?;
    let next_page_token = cx.next_page(&list, page, &mut items, |found| found.entitlement.id.uuid()).await?;
    let items = items.iter().map(|found| view(&found.entitlement, &found.app)).collect();
    Ok(Answer::new(&EntitlementPage { items, next_page_token }))
}
