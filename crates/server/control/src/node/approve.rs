//! Approve a node's hardware, so that it can be used. The operator names the reviewed inventory by its digest, so that a
//! later report of the agent cannot be approved by accident.

use muster_api::Code;
use muster_api::node::NodeApprove;
use muster_authz::Permission;
use muster_db::StoreError;
use muster_ids::{AllocationId, SlotId};
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::node::{Capacity, Node, Slot, SlotState};
use muster_wire::inventory::{Gpu, Inventory};
use serde_json::json;

use super::{QUEUED, ensure_reported, inventory, path, pin_address, still_ours, view};
use crate::commit::{target, told};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `node_approve`.
pub async fn approve(cx: &Cx, reference: &str, body: NodeApprove) -> Result<PreparedCommand> {
    cx.authorize(Permission::NodeApprove, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    still_ours(&node)?;
    // Before the version check, which would also fail: this error explains the change.
    if node.inventory_digest != body.digest {
        return Err(changed_since(&node));
    }
    if let Some(address) = &body.address {
        ensure_reported(&node, address)?;
    }
    cx.expect_version(node.version)?;
    let found = inventory(&node.inventory)?;
    let total = offered(&found);
    let (subject, told) = (
        path(&node),
        told(&[
            ("name", Some(json!(node.name))),
            ("digest", Some(json!(body.digest))),
            ("capacity", Some(json!(total))),
            ("address", node.reported_address.as_ref().map(|address| json!(address))),
        ]),
    );
    let (platform, now) = (cx.platform.clone(), cx.now);
    let before = view(&node);
    let commit = PreparedCommand::new(Scope::Platform, target("node", node.id, &node.name), move |tx| {
        Box::pin(async move {
            tx.node_lock(node.id).await?;
            let plan = plan(&found, &tx.slots_of(node.id).await?);
            if let Some((device, allocation)) = plan.held.first() {
                return Err(still_held(device, *allocation));
            }
            for gpu in plan.usable {
                tx.slot_upsert(&slot_of(&node, gpu, platform.env.id()), now).await?;
            }
            for slot in plan.gone {
                tx.slot_set_state(slot, SlotState::Retired, None, None, now).await?;
            }
            let approved = tx.node_approve(node.id, total, &body.digest, node.version, now).await;
            approved.map_err(|error| match error {
                StoreError::Conflict(_) => too_little(&node),
                error => error.into(),
            })?;
            pin_address(tx, &node).await?;
            tx.node_recount(node.id).await?;
            tx.operation_wake_queued(now, QUEUED).await?;
            Ok(Answer::new(&view(&tx.node_of(node.id).await?)))
        })
    });
    Ok(commit.before(&before).wakes_engine().event(cx, EventType::NodeApproved, subject, told))
}

/// Returns the capacity that a node offers to allocations.
fn offered(found: &Inventory) -> Capacity {
    Capacity {
        gpus: i64::try_from(found.gpus.len()).unwrap_or(i64::MAX),
        cpus: found.cpus.count.saturating_sub(found.reserved.cpus).max(0),
        memory_mb: found.memory_mb.saturating_sub(found.reserved.memory_mb).max(0),
        disk_mb: found.disk_mb,
    }
}

fn changed_since(node: &Node) -> Error {
    Error::new(
        Code::InvalidState,
        format!(
            "{} now has other hardware, with the digest {}: read the node again, and approve that",
            node.name, node.inventory_digest
        ),
    )
}

fn still_held(device: &str, allocation: AllocationId) -> Error {
    Error::new(
        Code::InvalidState,
        format!(
            "{device} is gone from the node, but {allocation} still holds it: release that allocation first"
        ),
    )
}

fn too_little(node: &Node) -> Error {
    Error::new(
        Code::InvalidState,
        format!(
            "the allocations on {} hold more CPUs, memory or disk than it has now: release some of them first",
            node.name
        ),
    )
}

/// Effect of an approval on a node's slots.
struct Plan<'f> {
    /// Present GPUs; each gets a slot, or its existing slot is updated.
    usable: &'f [Gpu],
    /// Slots with a missing device.
    gone: Vec<SlotId>,
    /// Missing devices that are still allocated, with their allocations.
    held: Vec<(String, AllocationId)>,
}

fn plan<'f>(found: &'f Inventory, slots: &[Slot]) -> Plan<'f> {
    let missing: Vec<&Slot> = slots
        .iter()
        .filter(|slot| slot.state != SlotState::Retired)
        .filter(|slot| !found.gpus.iter().any(|gpu| gpu.uuid == slot.device))
        .collect();
    Plan {
        usable: &found.gpus,
        held: missing.iter().filter_map(|slot| Some((slot.device.clone(), slot.allocation_id?))).collect(),
        gone: missing.iter().map(|slot| slot.id).collect(),
    }
}

fn slot_of(node: &Node, gpu: &Gpu, id: SlotId) -> Slot {
    Slot {
        id,
        node_id: node.id,
        kind: "gpu".to_owned(),
        device: gpu.uuid.clone(),
        ordinal: gpu.ordinal,
        model: gpu.model.clone(),
        memory_mb: gpu.memory_mb,
        numa: gpu.numa,
        island: gpu.island,
        state: SlotState::Approved,
        reason: None,
        allocation_id: None,
        version: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_ids::Env;
    use muster_wire::inventory::{Cpus, Reserved};

    fn gpu(uuid: &str) -> Gpu {
        Gpu {
            ordinal: 0,
            uuid: uuid.to_owned(),
            model: "NVIDIA H200".to_owned(),
            memory_mb: 143_771,
            pci: None,
            numa: 0,
            island: 0,
            nvlinks: 18,
            mig: false,
            ..Gpu::default()
        }
    }

    fn slot(env: &Env, device: &str, state: SlotState, held: bool) -> Slot {
        Slot {
            id: env.id(),
            node_id: env.id(),
            kind: "gpu".to_owned(),
            device: device.to_owned(),
            ordinal: 0,
            model: String::new(),
            memory_mb: 0,
            numa: 0,
            island: 0,
            state,
            reason: None,
            allocation_id: held.then(|| env.id()),
            version: 1,
        }
    }

    #[test]
    fn reservation_for_checks_is_not_offered_as_capacity() {
        let cpus = Cpus { count: 64, sockets: 2, model: String::new() };
        let found = Inventory { cpus, memory_mb: 512_000, disk_mb: 9, ..Inventory::default() };
        let capacity = |cpus, memory_mb| Capacity { gpus: 0, cpus, memory_mb, disk_mb: 9 };
        assert_eq!(offered(&found), capacity(64, 512_000));
        let kept = |cpus, memory_mb| Inventory { reserved: Reserved { cpus, memory_mb }, ..found.clone() };
        assert_eq!(offered(&kept(2, 16_384)), capacity(62, 495_616));
        assert_eq!(offered(&kept(65, 600_000)), capacity(0, 0));
    }

    #[test]
    fn slots_of_removed_devices_are_retired_unless_held() {
        let env = Env::for_tests(1);
        let found = Inventory { gpus: vec![gpu("a"), gpu("b")], ..Inventory::default() };
        let slots = [
            slot(&env, "a", SlotState::Approved, true),
            slot(&env, "b", SlotState::Discovered, false),
            slot(&env, "c", SlotState::Quarantined, false),
            slot(&env, "d", SlotState::Retired, false),
        ];
        let free = plan(&found, &slots);
        assert_eq!((free.usable.len(), free.gone, free.held.len()), (2, vec![slots[2].id], 0));
        let held = plan(&found, &[slot(&env, "c", SlotState::Approved, true)]);
        assert_eq!(held.held[0].0, "c");
    }
}
