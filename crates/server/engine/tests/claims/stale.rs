//! The planted bug: slots are chosen before the transaction instead of under the node's lock, like code that reads, decides
//! and then writes.

use std::time::Duration;

use muster_db::{Hold, Page, Result, Store, Tx};
use muster_engine::Placed;
use muster_ids::{ClaimId, Env};
use muster_model::LabelSelector;
use muster_model::allocation::Allocation;
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::placement::{Fit, FreeSlot, choose_slots};

/// A worker's knowledge when its transaction begins.
pub(crate) enum Choice {
    /// The kinds of nodes; the rest is chosen under the lock.
    Under(Vec<Fit>),
    /// The complete, possibly stale, choice.
    Before(Hold),
}

fn free(slots: &[Slot]) -> Vec<FreeSlot> {
    let free = slots.iter().filter(|slot| slot.allocation_id.is_none() && slot.state == SlotState::Approved);
    free.map(|slot| FreeSlot { id: slot.id, ordinal: slot.ordinal, island: slot.island, numa: slot.numa })
        .collect()
}

/// Returns the first node with enough capacity at this time, then pauses.
pub(crate) async fn choose(store: &Store, env: &Env, allocation: &Allocation) -> Result<Option<Hold>> {
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
            at: env.now(),
        }));
    }
    Ok(None)
}

/// Claims the earlier choice, whatever has changed since.
pub(crate) async fn hold(tx: &mut Tx, env: &Env, hold: &Hold) -> Result<Placed> {
    let claims: Vec<ClaimId> = hold.slots.iter().map(|_| env.id()).collect();
    tx.hold(hold, &claims).await?;
    Ok(Placed { node: hold.node, slots: hold.slots.clone(), held: hold.amount })
}
