//! List the projects visible to the actor.

use muster_api::ListQuery;
use muster_api::project::ProjectPage;
use muster_authz::{Permission, PrincipalKind};
use muster_ids::TypedId as _;
use muster_model::Scope;

use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `project_list`. A user's list contains only the projects within their roles, so only an allow list can forbid the
/// request itself.
pub async fn list(cx: &Cx, query: ListQuery) -> Result<Answer> {
    if let PrincipalKind::ServiceAccount { tenant, project, .. } = &cx.principal()?.kind {
        cx.authorize(Permission::ProjectList, Scope::Project(*tenant, *project), "project")?;
    }
    let of = cx.projects_seen()?;
    let list = format!("projects {of:?} {:?}", query.labels);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let mut items = cx.platform.store.project_list(page, of, &labels).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |project| project.id.uuid()).await?;
    Ok(Answer::new(&ProjectPage { items, next_page_token }))
}
