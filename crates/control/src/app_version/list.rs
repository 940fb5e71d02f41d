//! List the releases of an app.

use muster_api::app::AppVersionPage;
use muster_api::{ListQuery, Problem};
use muster_authz::Permission;
use muster_ids::TypedId as _;

use super::view;
use crate::app::found as found_app;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Answers `app_version_list`.
pub async fn list(cx: &Cx, project: &str, app: &str, query: ListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppVersionList, scope, "app")?;
    if query.labels.is_some() {
        return Err(Problem::field("query/labels", "releases have no labels"));
    }
    let app = found_app(cx, scope, app).await?.app;
    let list = format!("app versions {project} {}", app.id);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.app_version_list(page, project, app.id).await.map_err(refuse)?;
    let next_page_token = cx.next_page(&list, page, &mut items, |found| found.version.id.uuid()).await?;
    let items = items.iter().map(|found| view(&app, found)).collect();
    Ok(Answer::new(&AppVersionPage { items, next_page_token }))
}
