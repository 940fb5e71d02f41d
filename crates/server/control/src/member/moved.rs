//! Forecast of a member's replacement, for plans: whether its successor fits, and which data is lost.

use std::collections::BTreeSet;

use muster_api::operation::{PlannedAction, PlannedItem};
use muster_engine::member::amounts;
use muster_ids::{MemberId, NodeId};
use muster_manifest::{Manifest, ReplaceOrder};
use muster_model::instance::{Component, Instance};
use muster_model::member::Member;

use crate::capacity::shortage;
use crate::instance::{default_capacity, manifest_of, shape};
use crate::{Cx, Result};

/// Inputs for planning a replacement.
pub(crate) struct Replacement<'r> {
    pub(crate) instance: &'r Instance,
    /// Manifest of the instance's desired release.
    pub(crate) manifest: &'r Manifest,
    pub(crate) component: &'r Component,
    pub(crate) order: ReplaceOrder,
    /// Whether the successor uses the same allocation.
    pub(crate) in_place: bool,
    /// Node to exclude.
    pub(crate) but: Option<NodeId>,
    /// Message about the consequence if there is no capacity.
    pub(crate) without_room: &'static str,
}

/// Plans the replacement of these members, as requested by their owner.
pub(super) async fn replaced_items(
    cx: &Cx,
    members: &[Member],
    instance: &Instance,
    manifest: &Manifest,
    components: &[Component],
    unreachable: &BTreeSet<MemberId>,
) -> Result<Vec<PlannedItem>> {
    let mut items = Vec::new();
    for member in members {
        let Some(component) = components.iter().find(|component| component.key == member.component_key)
        else {
            continue;
        };
        let runs = member.app_version_id.unwrap_or(instance.app_version_id);
        let (_, runs) = manifest_of(cx, instance, runs).await?;
        let fenced = unreachable.contains(&member.id);
        let declared = runs.component(&component.key).map(|declared| declared.replace_order);
        let replacement = Replacement {
            instance,
            manifest,
            component,
            order: declared.filter(|_| !fenced).unwrap_or_default(),
            in_place: member.allocation_id.is_some() && !member.allocation_made && !fenced,
            but: None,
            without_room: "it would fail, and the member would stay",
        };
        items.push(replaced_item(cx, member, &replacement).await?);
    }
    Ok(items)
}

/// Plans the replacement of a member.
pub(crate) async fn replaced_item(cx: &Cx, member: &Member, of: &Replacement<'_>) -> Result<PlannedItem> {
    let mut parts = vec![match of.order {
        ReplaceOrder::NewFirst => "its successor becomes active before it is removed".to_owned(),
        ReplaceOrder::OldFirst => {
            "it is removed before its successor starts, whose capacity is reserved first".to_owned()
        }
    }];
    let need = default_capacity(of.manifest, of.component).filter(|_| !of.in_place);
    if let Some(need) = need.map(amounts) {
        let shape = shape(&of.instance.shape);
        parts.push(match shortage(cx, of.instance.project_id, shape, need, of.but).await? {
            None => "capacity is available now".to_owned(),
            Some(why) => format!("no capacity now: {why}; {}", of.without_room),
        });
    }
    let declared = of.manifest.component(&of.component.key);
    let state = declared.map(|declared| declared.state.as_slice()).unwrap_or_default();
    if !state.is_empty() {
        parts.push(format!("its state is lost: {}", state.join(", ")));
    }
    Ok(PlannedItem {
        id: member.id.to_string(),
        name: member.name.clone(),
        action: PlannedAction::Replace,
        message: parts.join("; "),
    })
}
