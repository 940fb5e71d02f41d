//! Carrying a placement out: the planner's order, the store's candidates, one transaction.

use jiff::Timestamp;
use muster_ids::{AllocationId, ClaimId, NodeId, SlotId, World};
use muster_model::allocation::{Allocation, AllocationShape};
use muster_model::node::Capacity;
use muster_model::placement::{Ask, Fit, FreeSlot, choose_slots, tiers};
use muster_store::{Candidate, Hold, Result, Tx};

/// Where an allocation was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// On which node.
    pub node: NodeId,
    /// In which slots.
    pub slots: Vec<SlotId>,
    /// What it holds there.
    pub held: Capacity,
}

/// What an allocation asks of the planner.
pub(crate) fn ask_of(allocation: &Allocation) -> Ask {
    Ask {
        gpus: u8::try_from(allocation.capacity.gpus).unwrap_or(u8::MAX),
        exclusive: allocation.shape == AllocationShape::Baremetal,
        strategy: allocation.strategy,
    }
}

/// Takes the best node there is for `allocation` and holds what it asks for; `None` when no node has so much. `fits` are the
/// kinds of nodes there are: read before, so that the transaction does as little as it can.
pub async fn place(
    tx: &mut Tx,
    world: &World,
    allocation: &Allocation,
    fits: &[Fit],
    at: Timestamp,
) -> Result<Option<Placed>> {
    let ask = ask_of(allocation);
    for tier in tiers(fits, &ask) {
        let Some(candidate) = tx.candidate(&tier, &allocation.capacity).await? else { continue };
        let Some(hold) = plan(allocation.id, &allocation.capacity, &ask, &candidate, at) else { continue };
        let claims: Vec<ClaimId> = hold.slots.iter().map(|_| world.id()).collect();
        tx.hold(&hold, &claims).await?;
        return Ok(Some(Placed { node: hold.node, slots: hold.slots, held: hold.amount }));
    }
    Ok(None)
}

/// What is taken of a candidate: pure.
fn plan(
    allocation: AllocationId,
    need: &Capacity,
    ask: &Ask,
    candidate: &Candidate,
    at: Timestamp,
) -> Option<Hold> {
    let slots = match ask.exclusive {
        true => candidate.free.iter().map(|slot| slot.id).collect(),
        false => choose_slots(&candidate.free, ask.gpus)?,
    };
    if slots.len() < usize::from(ask.gpus) {
        return None;
    }
    let left: Vec<FreeSlot> =
        candidate.free.iter().filter(|slot| !slots.contains(&slot.id)).cloned().collect();
    let gpus = i64::try_from(slots.len()).unwrap_or(i64::MAX);
    let amount = match ask.exclusive {
        // All of it: what a whole node has is what its only holder gets.
        true => Capacity { gpus, ..candidate.total },
        false => Capacity { gpus, ..*need },
    };
    Some(Hold {
        node: candidate.node,
        allocation,
        slots,
        amount,
        holders: 1,
        exclusive: ask.exclusive,
        fit: Fit::of(&left, false),
        at,
    })
}
