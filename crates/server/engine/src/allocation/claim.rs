//! Claims capacity on a node, or waits in the queue. The undo releases it.
//!
//! A node with a late heartbeat is never chosen. If only such nodes have room, the request is not refused either: the claim
//! waits until one of them sends a heartbeat, or all of them are declared lost. The same rule covers the start of a server,
//! before any heartbeat has arrived.

use jiff::Timestamp;
use muster_db::{Result, Silent, Tx};
use muster_model::allocation::{Allocation, AllocationShape, AllocationState, FailureReason};
use muster_model::event::EventType;
use muster_model::node::Capacity;
use muster_model::placement::shortage;
use serde_json::json;

use super::subject::{attested, path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::placement::{ask_of, place};
use crate::{StepAction, StepOutcome};

pub(super) const CLAIM: Step = Step {
    name: "claim",
    does: "choose a node and claim slots, CPUs, memory and disk",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    if allocation.held != Capacity::default() {
        return Ok(StepOutcome::with_message("already claimed").into());
    }
    // Earlier requests that need no more than this one go first.
    let fits = match cx.store.queue_yield_to(&allocation).await? {
        Some(_) => Vec::new(),
        None => cx.store.fits().await?,
    };
    let before = cx.store.queue_position(allocation.id).await?;
    let yields = fits.is_empty();
    let (env, now, look) = (cx.env.clone(), cx.now, cx.timing.look);
    let heard_since = cx.timing.heard_since(now);
    // Its next heartbeat is due within that time.
    let again_at = now + look.min(cx.timing.silent / 2);
    let operation_id = cx.operation.id;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            let Some(placed) = place(tx, &env, &allocation, &fits, heard_since, now).await? else {
                if allocation.wait_until.is_none_or(|until| now >= until) {
                    let ask = ask_of(&allocation);
                    let silent = tx.silent_with_room(&ask, &allocation.capacity, heard_since).await?;
                    return Ok(match silent.filter(|_| allocation.wait_until.is_none()) {
                        Some(silent) => StepOutcome::Wait { reason: awaits(&silent, now), until: again_at },
                        None => no_room(&allocation, short(tx, &allocation, heard_since, yields).await?),
                    });
                }
                if allocation.state == AllocationState::Requested {
                    let waiting = Allocation { state: AllocationState::Placing, ..allocation.clone() };
                    tx.allocation_move(&allocation, &waiting, now).await?;
                }
                let short = short(tx, &allocation, heard_since, yields).await?;
                let reason = format!("waiting in the queue, {before} before it: {short}");
                // A release wakes the head of the queue; this retry is a safeguard.
                let until = allocation.wait_until.unwrap_or(now).min(now + look * 6);
                return Ok(StepOutcome::Wait { reason, until });
            };
            // A bare-metal allocation holds the whole node, so the quota counts all of it.
            let more = allocation.capacity.to(&placed.held);
            if allocation.shape == AllocationShape::Baremetal
                && !tx.quota_take(allocation.project_id, 0, more).await?
            {
                tx.node_lock(placed.node).await?;
                tx.unhold(placed.node, allocation.id, &placed.held, now).await?;
                tx.node_recount(placed.node).await?;
                let message = tx.quota_excess(allocation.project_id, 0, &more).await?;
                return Ok(StepOutcome::Refused { reason: FailureReason::QuotaExceeded.as_str(), message });
            }
            let output = json!({"node": placed.node, "slots": placed.slots, "held": placed.held});
            let mut now_placing = allocation.clone();
            if allocation.state == AllocationState::Requested {
                now_placing.state = AllocationState::Placing;
                tx.allocation_move(&allocation, &now_placing, now).await?;
                now_placing.version += 1;
            }
            let after = Allocation {
                state: AllocationState::Provisioning,
                node_id: Some(placed.node),
                incarnation: allocation.incarnation + 1,
                held: placed.held,
                capacity: placed.held,
                operation_id: Some(operation_id),
                reason: None,
                message: None,
                ..now_placing.clone()
            };
            tx.allocation_move(&now_placing, &after, now).await?;
            let data = json!({"node_id": placed.node, "gpus": placed.slots.len()});
            effects.events.push((EventType::AllocationPlaced, path(&after), data));
            Ok(StepOutcome::with(output))
        })
    }))
}

fn no_room(allocation: &Allocation, message: String) -> StepOutcome {
    let reason = match allocation.wait_until {
        None => FailureReason::NoCapacity,
        Some(_) => FailureReason::WaitExpired,
    };
    StepOutcome::Refused { reason: reason.as_str(), message }
}

/// Describes the resource that is short for an allocation now.
pub(super) async fn short(
    tx: &mut Tx,
    allocation: &Allocation,
    heard_since: Timestamp,
    yields: bool,
) -> Result<String> {
    let rooms = tx.rooms(&allocation.capacity, heard_since).await?;
    let exclusive = allocation.shape == AllocationShape::Baremetal;
    Ok(match shortage(&allocation.capacity, exclusive, &rooms) {
        Some(shortage) => shortage.to_string(),
        None if yields => "earlier requests in the queue come first".to_owned(),
        None => "concurrent requests claimed the free capacity".to_owned(),
    })
}

/// Explains the wait of a request that only silent nodes could take.
fn awaits(silent: &Silent, now: Timestamp) -> String {
    let nodes = match silent.nodes {
        1 => "1 node has enough free, but its last heartbeat".to_owned(),
        nodes => format!("{nodes} nodes have enough free, but their last heartbeat"),
    };
    match silent.seen_at {
        Some(at) => format!("{nodes} was {} s ago", now.duration_since(at).as_secs()),
        None => format!("{nodes} is still to come"),
    }
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let Some(node) = allocation.node_id.filter(|_| allocation.held != Capacity::default()) else {
        return Ok(StepOutcome::with_message("nothing was claimed").into());
    };
    let now = cx.now;
    let attested = attested(cx, &allocation).await?.is_some();
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.node_lock(node).await?;
            if attested {
                let why = "returned on an attestation; not verified to be clean";
                tx.slot_quarantine_of(allocation.id, why, now).await?;
            }
            tx.unhold(node, allocation.id, &allocation.held, now).await?;
            tx.node_recount(node).await?;
            let incarnation = allocation.incarnation + i64::from(attested);
            let after = Allocation { held: Capacity::default(), incarnation, ..allocation.clone() };
            tx.allocation_move(&allocation, &after, now).await?;
            tx.operation_wake_queued(now, 8).await?;
            Ok(StepOutcome::with_message("returned"))
        })
    }))
}
