//! List a project's instances.

use muster_api::instance::{InstanceListQuery, InstancePage};
use muster_authz::Permission;
use muster_ids::TypedId as _;
use muster_store::InstanceFilter;

use super::{state_of, view};
use crate::refuse::refuse;
use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Answers `instance_list`.
pub async fn list(cx: &Cx, project: &str, query: InstanceListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::InstanceList, scope, "project")?;
    let list = format!("instances {project} {:?} {:?}", query.labels, query.state);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let filter = InstanceFilter { state: query.state.map(state_of) };
    let mut items = cx.platform.store.instance_list(page, &labels, project, filter).await.map_err(refuse)?;
    let next_page_token = cx.next_page(&list, page, &mut items, |instance| instance.id.uuid()).await?;
    let mut views = Vec::with_capacity(items.len());
    for instance in &items {
        views.push(view(cx, instance).await?);
    }
    Ok(Answer::new(&InstancePage { items: views, next_page_token }))
}
