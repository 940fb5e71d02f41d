//! The planted bug: slots are chosen before the transaction instead of under the node's lock, as code does that reads, thinks
//! and then writes.

use std::time::Duration;

use muster_db::{Hold, Page, Result, Store, Tx};
use muster_engine::Placed;
use muster_ids::{ClaimId, World};
use muster_model::LabelSelector;
use muster_model::allocation::Allocation;
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::placement::{Fit, FreeSlot, choose_slots};

/// What a worker knows when its transaction begins.
pub(crate) enum Choice {
    /// The kinds of nodes; the rest is chosen under the lock.
    Under(Vec<Fit>),
    /// Everything, it believes.
    Before(Hold),
}

fn free(slots: &[Slot]) -> Vec<FreeSlot> {
    let free = slots.iter().filter(|slot| slot.allocation_id.is_none() && slot.state == SlotState::Approved);
    free.map(|slot| FreeSlot { id: slot.id, ordinal: slot.ordinal, island: slot.island, numa: slot.numa })
        .collect()
}

/// The first node that has enough, as it is seen now; and then a moment passes.
pub(crate) async fn choose(store: &Store, world: &World, allocation: &Allocation) -> Result<Option<Hold>> {
    let gpus = u8::try_from(allocation.capacity.gpus).expect("a small number");
    let every = LabelSelector::parse("").expect("a selector");
    let nodes = store.node_list(Page { after: uuid::Uuid::nil(), size: 1_000 }, &every, None).await?;
    for node in nodes.iter().filter(|node| allocation.capacity.within(&node.free)) {
        let free = free(&store.slot_list(node.id).await?);
        let Some(slots) = choose_slots(&free, gpus) else { continue };
        let left: Vec<FreeSlot> = free.into_iter().filter(|slot| !slots.contains(&slot.id)).collect();
        tokio::time::sleep(Duration::from_millis(2)).await;
        return Ok(Some(Hold {
            node: node.id,
            allocation: allocation.id,
            amount: Capacity { gpus: i64::from(gpus), ..allocation.capacity },
            slots,
            holders: 1,
            exclusive: false,
            fit: Fit::of(&left, false),
            at: world.now(),
        }));
    }
    Ok(None)
}

/// Takes what was chosen, whatever it is by now.
pub(crate) async fn hold(tx: &mut Tx, world: &World, hold: &Hold) -> Result<Placed> {
    let claims: Vec<ClaimId> = hold.slots.iter().map(|_| world.id()).collect();
    tx.hold(hold, &claims).await?;
    Ok(Placed { node: hold.node, slots: hold.slots.clone(), held: hold.amount })
}
