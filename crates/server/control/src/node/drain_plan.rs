//! Plan of a drain: the action for each member and allocation on the node. It decides as the drain itself does.

use muster_api::operation::{PlannedAction, PlannedItem};
use muster_db::StoreError;
use muster_engine::node::{DrainMode, MemberFate, member_fate};
use muster_ids::TypedId as _;
use muster_model::member::Member;
use muster_model::node::Node;

use crate::instance::manifest_of;
use crate::member::moved::{Replacement, replaced_item};
use crate::{Cx, Error, Result};

/// Plans the actions for the node's members and allocations.
pub(super) async fn planned_items(cx: &Cx, node: &Node, force: bool) -> Result<Vec<PlannedItem>> {
    let store = &cx.platform.store;
    let mode = DrainMode { force, unreachable: node.unreachable_since.is_some() };
    let members = store.member_on(node.id).await?;
    let mut items = Vec::new();
    for member in &members {
        items.push(planned_member(cx, node, member, mode).await?);
    }
    for allocation in store.allocation_live_on(node.id).await? {
        // An allocation made for a member is released with it.
        if members.iter().any(|member| member.allocation_made && member.allocation_id == Some(allocation.id))
        {
            continue;
        }
        let (action, message) = match force {
            true => (
                PlannedAction::Release,
                "its owner can release it until the deadline; then the platform releases it",
            ),
            false => (PlannedAction::Wait, "its owner must release it; at the deadline the drain is blocked"),
        };
        let (id, name, message) = (allocation.id.to_string(), allocation.name, message.to_owned());
        items.push(PlannedItem { id, name, action, message });
    }
    Ok(items)
}

async fn planned_member(cx: &Cx, node: &Node, member: &Member, mode: DrainMode) -> Result<PlannedItem> {
    let store = &cx.platform.store;
    let item = |action: PlannedAction, message: String| PlannedItem {
        id: member.id.to_string(),
        name: member.name.clone(),
        action,
        message,
    };
    if let Some(other) = store.operation_open_on(member.id.uuid()).await?.first() {
        return Ok(item(PlannedAction::Wait, format!("{} ({}) is in progress on it", other.id, other.kind)));
    }
    let instance = store.instance_lookup(member.instance_id).await?;
    let instance = instance.ok_or_else(|| Error::from(StoreError::Gone("instance".to_owned())))?;
    let (_, wanted) = manifest_of(cx, &instance, instance.app_version_id).await?;
    let (_, runs) =
        manifest_of(cx, &instance, member.app_version_id.unwrap_or(instance.app_version_id)).await?;
    let order = match member_fate(member, &runs, mode) {
        MemberFate::Replace(order) => order,
        MemberFate::Drain => {
            let why =
                format!("{} cannot replace its members: it is drained, and its owner removes it", runs.app);
            return Ok(item(PlannedAction::Drain, why));
        }
        MemberFate::Wait(why) | MemberFate::Stay(why) => return Ok(item(PlannedAction::Wait, why)),
    };
    let components = store.component_list(instance.id).await?;
    let Some(component) = components.iter().find(|component| component.key == member.component_key) else {
        return Ok(item(
            PlannedAction::Wait,
            format!("its instance has no component {}", member.component_key),
        ));
    };
    let replacement = Replacement {
        instance: &instance,
        manifest: &wanted,
        component,
        order,
        in_place: false,
        but: Some(node.id),
        without_room: match mode.force {
            true => "it waits for capacity until the deadline, and then its allocation is released",
            false => "it waits for capacity until the deadline, and stays until there is some",
        },
    };
    replaced_item(cx, member, &replacement).await
}
