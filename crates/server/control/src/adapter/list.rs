//! List the adapters that work in a project, with the time of each one's last request.

use muster_api::PageQuery;
use muster_api::entitlement::{Adapter, AdapterPage};
use muster_authz::Permission;
use muster_db::FoundAdapter;
use muster_ids::TypedId as _;

use crate::{Answer, Cx, Result};

/// Handles `adapter_list`.
pub async fn list(cx: &Cx, project: &str, query: PageQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AdapterList, scope, "project")?;
    let list = format!("adapters {project}");
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let mut items = cx.platform.store.adapter_list(page, project).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |found| found.adapter.id.uuid()).await?;
    Ok(Answer::new(&AdapterPage { items: items.iter().map(view).collect(), next_page_token }))
}

fn view(found: &FoundAdapter) -> Adapter {
    let FoundAdapter { adapter, leases } = found;
    Adapter {
        id: adapter.id,
        project_id: adapter.project_id,
        service_account_id: adapter.service_account_id,
        name: adapter.name.clone(),
        adapter_version: adapter.adapter_version.clone(),
        contract_version: adapter.contract_version,
        created_at: adapter.created_at,
        seen_at: adapter.seen_at,
        leases: *leases,
    }
}
