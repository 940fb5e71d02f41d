//! List the releases of an app.

use futures::FutureExt as _;
use muster_api::PageQuery;
use muster_api::app::AppVersionPage;
use muster_authz::Permission;
use muster_db::FoundVersion;
use muster_ids::TypedId as _;

use super::view;
use crate::app::found as found_app;
use crate::{Answer, Cx, Result};

/// Handles `app_version_list`.
pub async fn list(cx: &Cx, project: &str, app: &str, query: PageQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppVersionList, scope, "app")?;
    let app = found_app(cx, scope, app).await?.app;
    let list = format!("app versions {project} {}", app.id);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let store = &cx.platform.store;
    let read = |page| store.app_version_list(page, project, app.id).boxed();
    let bytes = |found: &FoundVersion| found.version.manifest.to_string().len();
    let id = |found: &FoundVersion| found.version.id.uuid();
    let (items, next_page_token) = cx.read_page(&list, page, id, bytes, read).await?;
    let items = items.iter().map(|found| view(&app, found)).collect();
    Ok(Answer::new(&AppVersionPage { items, next_page_token }))
}
