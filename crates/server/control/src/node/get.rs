//! Show a node: its state, hardware, unapproved differences and holders.

use muster_authz::Permission;
use muster_model::Scope;
use muster_wire::difference::difference;

use super::{inventory, view};
use crate::{Answer, Cx, Result};

/// Handles `node_get`.
pub async fn get(cx: &Cx, reference: &str) -> Result<Answer> {
    cx.authorize(Permission::NodeGet, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    let slots = cx.platform.store.slot_list(node.id).await?;
    let found = inventory(&node.inventory)?;
    let mut shown = view(&node);
    if shown.needs_approval
        && let Some(approved) = &node.approved_inventory
    {
        shown.difference = Some(difference(&inventory(approved)?, &found));
    }
    shown.slots = Some(slots);
    shown.inventory = Some(found);
    Ok(Answer::new(&shown))
}
