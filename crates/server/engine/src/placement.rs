//! Executes a placement: the planner's order, the store's candidates, one transaction.

use jiff::Timestamp;
use muster_db::{Candidate, Hold, Result, StoreError, Tx};
use muster_ids::{AllocationId, ClaimId, Env, NodeId, SlotId};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::node::Capacity;
use muster_model::placement::{Ask, Fit, FreeSlot, ask_for, choose_slots, tiers};

/// Placement of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The node.
    pub node: NodeId,
    /// Its slots there.
    pub slots: Vec<SlotId>,
    /// Capacity that it holds there.
    pub held: Capacity,
}

/// Builds an allocation's request to the planner.
pub(crate) fn ask_of(allocation: &Allocation) -> Ask {
    ask_for(&allocation.capacity, allocation.shape == AllocationShape::Baremetal, allocation.strategy)
}

/// Claims capacity for `allocation` on the best node; `None` when no node has enough. `fits` are the existing kinds of
/// nodes, read beforehand to keep the transaction short; empty means that it must not be placed now. A node whose last
/// heartbeat is older than `heard_since` is never chosen, whatever its state.
///
/// A node locked by another transaction is skipped, and one that changed since `fits` was read is not found. If nothing is
/// left, the search runs once more over all nodes in one snapshot: `None` is never returned for a fleet that had room
/// throughout. `Conflict`: lost a race, plan again.
pub async fn place(
    tx: &mut Tx,
    env: &Env,
    allocation: &Allocation,
    fits: &[Fit],
    heard_since: Timestamp,
    at: Timestamp,
) -> Result<Option<Placed>> {
    let ask = ask_of(allocation);
    if let Some(placed) = take(tx, env, allocation, &ask, fits, heard_since, at).await? {
        return Ok(Some(placed));
    }
    if fits.is_empty() {
        return Ok(None);
    }
    let Some(node) = tx.node_with_room(&ask, &allocation.capacity, heard_since).await? else {
        return Ok(None);
    };
    let others =
        || StoreError::Conflict("concurrent requests use every node with enough capacity".to_owned());
    // A transaction that frees capacity wakes the queue and so waits for the locks held here: waiting for it would deadlock.
    if allocation.state == AllocationState::Placing {
        return Err(others());
    }
    tx.node_lock(node).await?;
    let fits = tx.fits().await?;
    take(tx, env, allocation, &ask, &fits, heard_since, at).await?.map(Some).ok_or_else(others)
}

/// Claims the best unlocked node of one of these kinds.
async fn take(
    tx: &mut Tx,
    env: &Env,
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
        let claims: Vec<ClaimId> = hold.slots.iter().map(|_| env.id()).collect();
        tx.hold(&hold, &claims).await?;
        return Ok(Some(Placed { node: hold.node, slots: hold.slots, held: hold.amount }));
    }
    Ok(None)
}

/// Computes the claim on a candidate: pure.
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
        // An exclusive holder gets the whole node.
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
