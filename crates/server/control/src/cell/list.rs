//! List a project's cells.

use futures::FutureExt as _;
use muster_api::cell::{CellListQuery, CellPage};
use muster_authz::Permission;
use muster_db::CellFilter;
use muster_ids::TypedId as _;
use muster_model::cell::Cell;

use super::view;
use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `cell_list`.
pub async fn list(cx: &Cx, reference: &str, query: CellListQuery) -> Result<Answer> {
    let (project, scope) = cx.project_scope(reference).await?;
    cx.authorize(Permission::CellList, scope, "project")?;
    let allocation = match &query.allocation {
        Some(named) => Some(cx.allocation(reference, named).await?.id),
        None => None,
    };
    let list = format!("cells {project} {:?} {:?} {allocation:?}", query.labels, query.state);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let filter = CellFilter { state: query.state, allocation };
    let store = &cx.platform.store;
    let read = |page| store.cell_list(page, &labels, project, filter).boxed();
    let bytes = |cell: &Cell| cell.spec.to_string().len();
    let (items, next_page_token) =
        cx.read_page(&list, page, |cell: &Cell| cell.id.uuid(), bytes, read).await?;
    let mut views = Vec::with_capacity(items.len());
    for cell in &items {
        views.push(view(cx, cell).await?);
    }
    Ok(Answer::new(&CellPage { items: views, next_page_token }))
}
