//! List nodes.

use muster_api::node::{NodeListQuery, NodePage};
use muster_authz::Permission;
use muster_ids::TypedId as _;
use muster_model::Scope;

use super::view;
use crate::tenant::selector;
use crate::{Answer, Cx, Result};

/// Handles `node_list`.
pub async fn list(cx: &Cx, query: NodeListQuery) -> Result<Answer> {
    cx.authorize(Permission::NodeList, Scope::Platform, "node")?;
    let list = format!("nodes {:?} {:?}", query.state, query.labels);
    let page = cx.page(&list, query.page_size, query.page_token.as_deref()).await?;
    let labels = selector(query.labels.as_deref())?;
    let mut items = cx.platform.store.node_list(page, &labels, query.state).await?;
    let next_page_token = cx.next_page(&list, page, &mut items, |node| node.id.uuid()).await?;
    Ok(Answer::new(&NodePage { items: items.iter().map(view).collect(), next_page_token }))
}
