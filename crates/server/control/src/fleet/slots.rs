//! Slots in an inventory. A discovered slot is only reported; an operator's approval makes it usable. A slot with a missing
//! device cannot be allocated until the device returns.

use jiff::Timestamp;
use muster_db::{Presence, Tx};
use muster_ids::{Env, NodeId, SlotId};
use muster_model::audit::Target;
use muster_model::event::EventType;
use muster_model::node::{Node, Slot, SlotState};
use muster_wire::inventory::Inventory;
use serde_json::json;

use super::tell;
use crate::Cx;

/// Number of queued operations to wake when slots become usable.
const QUEUED: i64 = 8;

/// Returns the slots to write for the GPUs of `found`. Approved and quarantined slots stay unchanged: their facts change
/// only when the difference is approved.
pub(super) fn discovered(env: &Env, node: NodeId, found: &Inventory, known: &[Slot]) -> Vec<Slot> {
    let slots = found.gpus.iter().map(|gpu| Slot {
        id: env.id(),
        node_id: node,
        kind: "gpu".to_owned(),
        device: gpu.uuid.clone(),
        ordinal: gpu.ordinal,
        model: gpu.model.clone(),
        memory_mb: gpu.memory_mb,
        numa: gpu.numa,
        island: gpu.island,
        state: SlotState::Discovered,
        reason: None,
        allocation_id: None,
        version: 1,
    });
    let facts = |slot: &Slot| (slot.ordinal, slot.model.clone(), slot.memory_mb, slot.numa, slot.island);
    slots
        .filter(|slot| match known.iter().find(|known| known.device == slot.device) {
            None => true,
            Some(known) if known.state == SlotState::Discovered => facts(known) != facts(slot),
            Some(known) => known.state == SlotState::Retired,
        })
        .collect()
}

/// Records discovered, missing and returned devices, and publishes the affected slots. The calling request holds the lock on
/// the node's row. Returns whether a queued operation may be able to claim something now.
pub(super) async fn write(
    tx: &mut Tx,
    cx: &Cx,
    node: &Node,
    action: &str,
    inventory: &Inventory,
    discovered: &[Slot],
) -> muster_db::Result<bool> {
    let devices = inventory.gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    // First, because a retired device that returns counts as missing until then.
    let Presence { lost, found } = tx.slot_presence(node.id, &devices, cx.now).await?;
    add(tx, discovered, cx.now).await?;
    for (id, device) in &lost {
        tell_of(tx, cx, node, action, (*id, device), EventType::SlotQuarantined).await?;
    }
    for (id, device) in &found {
        tell_of(tx, cx, node, action, (*id, device), EventType::SlotFound).await?;
    }
    if !found.is_empty() {
        tx.operation_wake_queued(cx.now, QUEUED).await?;
    }
    Ok(!found.is_empty())
}

pub(super) async fn add(tx: &mut Tx, slots: &[Slot], at: Timestamp) -> muster_db::Result<()> {
    for slot in slots {
        tx.slot_upsert(slot, at).await?;
    }
    Ok(())
}

async fn tell_of(
    tx: &mut Tx,
    cx: &Cx,
    node: &Node,
    action: &str,
    (id, device): (SlotId, &str),
    event: EventType,
) -> muster_db::Result<()> {
    let mut told = json!({"node_id": node.id, "device": device});
    if event == EventType::SlotQuarantined {
        told["reason"] = json!("its device no longer exists");
    }
    let news = tell::News {
        actor: tell::agent(node.id, &node.name),
        action,
        target: Target { kind: "slot".to_owned(), id: id.to_string(), name: Some(device.to_owned()) },
        subject: format!("/v1/slots/{id}"),
        events: vec![(event, told)],
        correlation_id: &cx.correlation_id,
        at: cx.now,
    };
    cx.platform.outbox_append(tx, news).await
}
