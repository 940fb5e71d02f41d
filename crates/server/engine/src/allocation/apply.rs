//! Resizes the allocation's sandbox on the node. The undo restores the old size and wipes the added resources.

use muster_db::{Result, StoreError};
use muster_model::allocation::{Allocation, FailureReason};
use muster_model::node::Capacity;
use muster_wire::act::{Act, Resize, SandboxResources};
use muster_wire::task::Amount;

use super::grow::change;
use super::subject::{ask_act, inspect_act, owned_allocation, subject, wipe_act};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const APPLY: Step = Step {
    name: "apply",
    does: "resize the sandbox on the node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

/// Builds the act that gives the sandbox this size.
fn resize_act(allocation: &Allocation, size: &Capacity, devices: &[String]) -> Act {
    let amount = Amount { cpus: size.cpus, memory_mb: size.memory_mb, disk_mb: size.disk_mb };
    let resources = SandboxResources { devices: devices.to_vec(), amount };
    Act::Resize(Resize { allocation: owned_allocation(allocation), resources })
}

async fn ask_for(cx: &StepCx<'_>, allocation: &Allocation, act: Act, purpose: &'static str) -> Result<Asked> {
    let node = allocation.node_id.ok_or(StoreError::Corrupt("a node"))?;
    ask_act(cx, allocation, node, act, purpose).await
}

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let change = change(cx)?.ok_or(StoreError::Corrupt("the journal of a resize"))?;
    let resize = resize_act(&allocation, &change.target, &change.devices);
    Ok(match ask_for(cx, &allocation, resize, "resize").await? {
        Asked::Pending(act) => act,
        Asked::Done(..) => StepOutcome::done().into(),
        Asked::Failed(message) => {
            StepOutcome::Refused { reason: FailureReason::PrepareFailed.as_str(), message }.into()
        }
    })
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let Some(change) = change(cx)? else {
        return Ok(StepOutcome::with_message("nothing was applied").into());
    };
    let added: Vec<String> =
        change.devices.iter().filter(|device| !change.devices_before.contains(device)).cloned().collect();
    let asks = [
        (resize_act(&allocation, &change.before, &change.devices_before), "undo resize"),
        (wipe_act(&allocation, added.clone()), "undo wipe"),
        (inspect_act(&allocation, added), "undo inspect"),
    ];
    for (act, purpose) in asks {
        let inspects = matches!(act, Act::Inspect(_));
        match ask_for(cx, &allocation, act, purpose).await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Done(_, found) if inspects && !found.residue.is_empty() => {
                return Ok(refused(format!("not wiped: {:?}", found.residue)));
            }
            Asked::Done(..) => {}
            Asked::Failed(message) => return Ok(refused(message)),
        }
    }
    Ok(StepOutcome::with_message("the old size is restored").into())
}

fn refused(message: String) -> StepAction {
    StepOutcome::Refused { reason: FailureReason::WipeFailed.as_str(), message }.into()
}
