//! List a node's slots, with who holds them. A machine has a handful, so that they come in one page.

use muster_api::slot::SlotPage;
use muster_authz::Permission;
use muster_model::Scope;

use super::view;
use crate::refuse::refuse;
use crate::{Answer, Cx, Result};

/// Answers `slot_list`.
pub async fn list(cx: &Cx, node: &str) -> Result<Answer> {
    cx.authorize(Permission::SlotList, Scope::Platform, "node")?;
    let node = cx.node(node).await?;
    let slots = cx.platform.store.slot_list(node.id).await.map_err(refuse)?;
    Ok(Answer::new(&SlotPage { items: slots.iter().map(view).collect(), next_page_token: None }))
}
