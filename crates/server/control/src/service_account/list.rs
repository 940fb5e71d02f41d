//! List a project's service accounts.

use muster_api::ListQuery;
use muster_api::service_account::ServiceAccountPage;
use muster_authz::Permission;
use muster_ids::TypedId as _;

use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `service_account_list`.
pub async fn list(cx: &Cx, project: &str, query: ListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::ServiceAccountList, scope, "project")?;
    let list = format!("service accounts {} {:?}", project, query.labels);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let mut items = cx.platform.store.service_account_list(page, project, &labels).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |account| account.id.uuid()).await?;
    Ok(Answer::new(&ServiceAccountPage { items, next_page_token }))
}
