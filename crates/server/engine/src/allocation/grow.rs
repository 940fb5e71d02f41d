//! Claims the growth of a resize on the same node. The undo releases it.

use muster_db::{Hold, Result, StoreError};
use muster_ids::SlotId;
use muster_model::allocation::{Allocation, FailureReason};
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::operation_input::RequestedCapacity;
use muster_model::placement::{Fit, FreeSlot, Resource, choose_slots};
use serde::{Deserialize, Serialize};

use super::subject::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::step_outcome::recorded;
use crate::{StepAction, StepOutcome};

pub(super) const GROW: Step = Step {
    name: "grow",
    does: "claim the additional capacity on the same node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

/// Plan of a resize, decided once and kept in the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Change {
    /// Old size.
    pub(super) before: Capacity,
    /// New size.
    pub(super) target: Capacity,
    /// Slots to add.
    pub(super) added: Vec<SlotId>,
    /// Slots to release.
    pub(super) removed: Vec<SlotId>,
    /// Old devices.
    pub(super) devices_before: Vec<String>,
    /// New devices.
    pub(super) devices: Vec<String>,
}

/// Returns the plan from the journal.
pub(super) fn change(cx: &StepCx<'_>) -> Result<Option<Change>> {
    recorded(cx.operation, &GROW)
}

/// Returns the increase from `before` to `target`; never negative.
pub(super) fn growth(before: &Capacity, target: &Capacity) -> Capacity {
    let more = before.to(target);
    Capacity {
        gpus: more.gpus.max(0),
        cpus: more.cpus.max(0),
        memory_mb: more.memory_mb.max(0),
        disk_mb: more.disk_mb.max(0),
    }
}

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let node = allocation.node_id.ok_or(StoreError::Corrupt("a node"))?;
    let Some(RequestedCapacity::Each(target)) = cx.operation.input.capacity else {
        return Err(StoreError::Corrupt("a capacity"));
    };
    let (env, now) = (cx.env.clone(), cx.now);
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let more = growth(&allocation.held, &target);
            tx.node_lock(node).await?;
            if !tx.quota_take(allocation.project_id, 0, more).await? {
                let message = tx.quota_excess(allocation.project_id, 0, &more).await?;
                return Ok(refused(FailureReason::QuotaExceeded, message));
            }
            let slots = tx.slots_of(node).await?;
            let Some(change) = plan(&allocation, &target, &slots) else {
                // Revert everything, the quota above included.
                let less = more.to(&Capacity::default());
                tx.quota_take(allocation.project_id, 0, less).await?;
                let free = slots.iter().filter(|slot| is_free(slot)).count();
                let message =
                    format!("needs {} more; free on its node: {free}", Resource::Gpus.words(more.gpus));
                return Ok(refused(FailureReason::NoCapacity, message));
            };
            let hold = Hold {
                node,
                allocation: allocation.id,
                slots: change.added.clone(),
                amount: more,
                holders: 0,
                exclusive: false,
                fit: Fit::of(&[], false),
                at: now,
            };
            let claims: Vec<_> = change.added.iter().map(|_| env.id()).collect();
            match tx.hold_if_room(&hold, &claims).await? {
                true => {}
                false => {
                    let less = more.to(&Capacity::default());
                    tx.quota_take(allocation.project_id, 0, less).await?;
                    let free = tx.node_of(node).await?.free;
                    return Ok(refused(FailureReason::NoCapacity, short_on_node(&more, &free)));
                }
            }
            tx.node_recount(node).await?;
            let held = allocation.held;
            let larger = Capacity {
                gpus: held.gpus + more.gpus,
                cpus: held.cpus + more.cpus,
                memory_mb: held.memory_mb + more.memory_mb,
                disk_mb: held.disk_mb + more.disk_mb,
            };
            // Its capacity always equals the charged quota: a superseding operation returns exactly that.
            let after = Allocation { held: larger, capacity: larger, ..allocation.clone() };
            tx.allocation_move(&allocation, &after, now).await?;
            Ok(StepOutcome::with(change))
        })
    }))
}

fn refused(reason: FailureReason, message: String) -> StepOutcome {
    StepOutcome::Refused { reason: reason.as_str(), message }
}

fn is_free(slot: &Slot) -> bool {
    slot.allocation_id.is_none() && slot.state == SlotState::Approved
}

/// Describes the resource that its node is short of: pure.
fn short_on_node(more: &Capacity, free: &Capacity) -> String {
    let short = Resource::COUNTED.into_iter().find(|resource| resource.amount(more) > resource.amount(free));
    match short {
        Some(resource) => {
            let (needs, free) = (resource.words(resource.amount(more)), resource.amount(free));
            format!("needs {needs} more; free on its node: {free}")
        }
        None => "concurrent requests claimed the free capacity of its node".to_owned(),
    }
}

/// Plans which slots are added and removed: pure. `None` if the node has too few free slots.
fn plan(allocation: &Allocation, target: &Capacity, slots: &[Slot]) -> Option<Change> {
    let as_free =
        |slot: &Slot| FreeSlot { id: slot.id, ordinal: slot.ordinal, island: slot.island, numa: slot.numa };
    let mine: Vec<&Slot> = slots.iter().filter(|slot| slot.allocation_id == Some(allocation.id)).collect();
    let wanted = usize::try_from(target.gpus).ok()?;
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    if wanted > mine.len() {
        let free: Vec<FreeSlot> = slots.iter().filter(|slot| is_free(slot)).map(as_free).collect();
        added = choose_slots(&free, u8::try_from(wanted - mine.len()).ok()?)?;
    } else {
        let kept: Vec<FreeSlot> = mine.iter().map(|slot| as_free(slot)).collect();
        let kept = choose_slots(&kept, u8::try_from(wanted).ok()?)?;
        removed = mine.iter().map(|slot| slot.id).filter(|id| !kept.contains(id)).collect();
    }
    let device = |slot: &Slot| slot.device.clone();
    let mut devices_before: Vec<String> = mine.iter().map(|slot| device(slot)).collect();
    let mut devices: Vec<String> = slots
        .iter()
        .filter(|slot| added.contains(&slot.id) || slot.allocation_id == Some(allocation.id))
        .filter(|slot| !removed.contains(&slot.id))
        .map(device)
        .collect();
    devices_before.sort();
    devices.sort();
    Some(Change { before: allocation.held, target: *target, added, removed, devices_before, devices })
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let Some(change) = change(cx)? else {
        return Ok(StepOutcome::with_message("nothing was added").into());
    };
    let node = allocation.node_id.ok_or(StoreError::Corrupt("a node"))?;
    if allocation.held == change.before {
        return Ok(StepOutcome::with_message("already returned").into());
    }
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            let more = growth(&change.before, &change.target);
            tx.node_lock(node).await?;
            tx.unhold_some(node, allocation.id, &change.added, &more, now).await?;
            tx.node_recount(node).await?;
            tx.quota_take(allocation.project_id, 0, more.to(&Capacity::default())).await?;
            let after = Allocation { held: change.before, capacity: change.before, ..allocation.clone() };
            tx.allocation_move(&allocation, &after, now).await?;
            Ok(StepOutcome::with_message("returned"))
        })
    }))
}
