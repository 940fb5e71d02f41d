//! List adapter steps, with their lease holders.

use muster_api::adapter_step::{AdapterStepListQuery, AdapterStepPage};
use muster_authz::Permission;
use muster_db::AdapterStepFilter;
use muster_ids::TypedId as _;

use super::view;
use crate::{Answer, Cx, Result};

/// Handles `adapter_step_list`.
pub async fn list(cx: &Cx, reference: &str, query: AdapterStepListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(reference).await?;
    cx.authorize(Permission::AdapterStepList, scope, "project")?;
    let instance = match &query.instance {
        Some(named) => Some(cx.instance(reference, named).await?.id),
        None => None,
    };
    let list = format!("adapter steps {project} {instance:?} {:?}", query.state);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let filter = AdapterStepFilter { instance, state: query.state, operator: cx.operates() };
    let mut items = cx.platform.store.adapter_step_list(page, project, filter).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |step| step.id.uuid()).await?;
    Ok(Answer::new(&AdapterStepPage { items: items.iter().map(view).collect(), next_page_token }))
}
