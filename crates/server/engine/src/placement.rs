//! Carrying a placement out: the planner's order, the store's candidates, one transaction.

use jiff::Timestamp;
use muster_db::{Candidate, Hold, Result, StoreError, Tx};
use muster_ids::{AllocationId, ClaimId, NodeId, SlotId, World};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::node::Capacity;
use muster_model::placement::{Ask, Fit, FreeSlot, ask_for, choose_slots, tiers};

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
    ask_for(&allocation.capacity, allocation.shape == AllocationShape::Baremetal, allocation.strategy)
}

/// Takes the best node there is for `allocation` and holds what it asks for; `None` when no node has so much. `fits` are the
/// kinds of nodes there are: read before, so that the transaction does as little as it can; none of them means that it must
/// not be placed now. No node is taken whose last heartbeat is older than `heard_since`, whatever its state.
///
/// A node that another works on at this moment is passed over, and one that changed since `fits` was read is not found. When
/// that leaves nothing, the question is asked once more, of all nodes at one moment: `None` is never said of a fleet that
/// had room all the while. `Conflict`: others were faster, plan again.
pub async fn place(
    tx: &mut Tx,
    world: &World,
    allocation: &Allocation,
    fits: &[Fit],
    heard_since: Timestamp,
    at: Timestamp,
) -> Result<Option<Placed>> {
    let ask = ask_of(allocation);
    if let Some(placed) = take(tx, world, allocation, &ask, fits, heard_since, at).await? {
        return Ok(Some(placed));
    }
    if fits.is_empty() {
        return Ok(None);
    }
    let Some(node) = tx.node_with_room(&ask, &allocation.capacity, heard_since).await? else {
        return Ok(None);
    };
    let others = || StoreError::Conflict("others are at work on every node that has room".to_owned());
    // Who frees something wakes those in line, and so waits for what this transaction holds: it must not wait for them.
    if allocation.state == AllocationState::Placing {
        return Err(others());
    }
    tx.node_lock(node).await?;
    let fits = tx.fits().await?;
    take(tx, world, allocation, &ask, &fits, heard_since, at).await?.map(Some).ok_or_else(others)
}

/// Holds the best that is of one of these kinds and in nobody's hands.
async fn take(
    tx: &mut Tx,
    world: &World,
    allocation: &Allocation,
    ask: &Ask,
    fits: &[Fit],
    heard_since: Timestamp,
    at: Timestamp,
) -> Result<Option<Placed>> {
    for tier in tiers(fits, ask) {
        let Some(candidate) = tx.candidate(&tier, &allocation.capacity, heard_since).await? else {
            continue;
        };
        let Some(hold) = plan(allocation.id, &allocation.capacity, ask, &candidate, at) else { continue };
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
