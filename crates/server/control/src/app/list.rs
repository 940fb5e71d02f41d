//! List the apps that a project finds in the catalog.
use muster_api::app::{AppListQuery, AppPage};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::tenant::selector;
use crate::{Answer, Cx, Error, Result};

/// Handles `app_list`.
pub async fn list(cx: &Cx, project: &str, query: AppListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppList, scope, "project")?;
    let tenant = scope.tenant().ok_or_else(|| Error::not_found("project"))?;
    let own = query.own.unwrap_or(false);
    let list = format!("apps {project} {:?} {own}", query.labels);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let mut items = cx.platform.store.app_list(page, &labels, project, tenant, own).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |found| found.app.id.uuid()).await?;
    Ok(Answer::new(&AppPage { items: items.iter().map(view).collect(), next_page_token }))
}
