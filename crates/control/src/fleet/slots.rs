//! The slots that an inventory shows. A discovered slot is only told of; an operator's approval makes it usable.

use jiff::Timestamp;
use muster_ids::{NodeId, World};
use muster_model::node::{Slot, SlotState};
use muster_node_api::inventory::Inventory;
use muster_store::Tx;

/// What has to be written so that every GPU of `found` is known. What is approved or quarantined stays as it is: its facts
/// change with the approval of the difference, not before.
pub(super) fn discovered(world: &World, node: NodeId, found: &Inventory, known: &[Slot]) -> Vec<Slot> {
    let slots = found.gpus.iter().map(|gpu| Slot {
        id: world.id(),
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

pub(super) async fn write(tx: &mut Tx, slots: &[Slot], at: Timestamp) -> muster_store::Result<()> {
    for slot in slots {
        tx.slot_upsert(slot, at).await?;
    }
    Ok(())
}
