//! List a node's slots, with their holders. A machine has few, so they fit on one page.

use muster_api::slot::SlotPage;
use muster_authz::Permission;
use muster_model::Scope;

use crate::{Answer, Cx, Result};

/// Handles `slot_list`.
pub async fn list(cx: &Cx, node: &str) -> Result<Answer> {
    cx.authorize(Permission::SlotList, Scope::Platform, "node")?;
    let node = cx.node(node).await?;
    let slots = cx.platform.store.slot_list(node.id).await?;
    Ok(Answer::new(&SlotPage { items: slots, next_page_token: None }))
}
