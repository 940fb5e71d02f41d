//! List a project's allocations.

use muster_api::allocation::{AllocationListQuery, AllocationPage};
use muster_authz::Permission;
use muster_db::AllocationFilter;
use muster_ids::TypedId as _;

use super::full_view;
use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `allocation_list`.
pub async fn list(cx: &Cx, project: &str, query: AllocationListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AllocationList, scope, "project")?;
    let list = format!("allocations {project} {:?} {:?}", query.labels, query.state);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let filter = AllocationFilter { project: Some(project), state: query.state, node: None };
    let mut items = cx.platform.store.allocation_list(page, &labels, filter).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |allocation| allocation.id.uuid()).await?;
    let mut views = Vec::with_capacity(items.len());
    for allocation in &items {
        views.push(full_view(cx, allocation).await?);
    }
    Ok(Answer::new(&AllocationPage { items: views, next_page_token }))
}
