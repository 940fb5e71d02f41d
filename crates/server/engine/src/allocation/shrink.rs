//! Wipes the surplus of a smaller size, verifies that, and releases it.

use muster_db::{Result, StoreError};
use muster_model::allocation::{Allocation, FailureReason};

use super::grow::{change, growth};
use super::subject::{ask_act, inspect_act, subject, wipe_act};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const SHRINK: Step = Step {
    name: "shrink",
    does: "wipe and return the surplus capacity",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("the returned capacity may be claimed again already"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let node = allocation.node_id.ok_or(StoreError::Corrupt("a node"))?;
    let change = change(cx)?.ok_or(StoreError::Corrupt("the journal of a resize"))?;
    if allocation.held == change.target && allocation.capacity == change.target {
        return Ok(StepOutcome::with_message("no capacity is surplus").into());
    }
    let devices: Vec<String> =
        change.devices_before.iter().filter(|device| !change.devices.contains(device)).cloned().collect();
    if !devices.is_empty() {
        match ask_act(cx, &allocation, node, wipe_act(&allocation, devices.clone()), "wipe").await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Done(..) => {}
            Asked::Failed(message) => return Ok(refused(message)),
        }
        match ask_act(cx, &allocation, node, inspect_act(&allocation, devices), "inspect").await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Done(_, found) if !found.residue.is_empty() => {
                return Ok(refused(format!("not wiped: {:?}", found.residue)));
            }
            Asked::Done(..) => {}
            Asked::Failed(message) => return Ok(refused(message)),
        }
    }
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            // The reverse of growth: the decrease to the target.
            let less = growth(&change.target, &change.before);
            tx.node_lock(node).await?;
            tx.unhold_some(node, allocation.id, &change.removed, &less, now).await?;
            tx.node_recount(node).await?;
            tx.quota_take(allocation.project_id, 0, less.to(&muster_model::node::Capacity::default()))
                .await?;
            let after = Allocation { held: change.target, capacity: change.target, ..allocation.clone() };
            tx.allocation_move(&allocation, &after, now).await?;
            tx.operation_wake_queued(now, 8).await?;
            Ok(StepOutcome::done())
        })
    }))
}

fn refused(message: String) -> StepAction {
    StepOutcome::Refused { reason: FailureReason::WipeFailed.as_str(), message }.into()
}
