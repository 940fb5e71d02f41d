//! Resizes the allocation's sandbox on the node. The undo restores the old size and wipes the added resources.

use futures::future::BoxFuture;
use muster_db::{Result, StoreError};
use muster_model::allocation::{Allocation, FailureReason};
use muster_model::node::Capacity;
use muster_model::task::TaskKind;
use muster_wire::task::{Amount, Details};

use super::grow::change;
use super::subject::{owned, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Ask, Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const APPLY: Step = Step {
    name: "apply",
    does: "resize the sandbox on the node",
    verifies: false,
    run,
    undo: Undo::Run(undo),
};

/// Returns the task details of a sandbox of this size.
fn sized(allocation: &Allocation, size: &Capacity, devices: &[String]) -> Details {
    let amount = Amount { cpus: size.cpus, memory_mb: size.memory_mb, disk_mb: size.disk_mb };
    Details { devices: devices.to_vec(), amount, ..owned(allocation) }
}

async fn ask_for(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    kind: TaskKind,
    purpose: &'static str,
    details: Details,
) -> Result<Asked> {
    let node = allocation.node_id.ok_or(StoreError::Corrupt("a node"))?;
    let incarnation = allocation.incarnation;
    ask(
        cx,
        &Ask { node, kind, purpose: purpose.into(), allocation: Some(allocation.id), incarnation, details },
    )
    .await
}

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<StepAction>> {
    Box::pin(async move {
        let allocation = subject(cx).await?;
        let change = change(cx)?.ok_or(StoreError::Corrupt("the journal of a resize"))?;
        let details = sized(&allocation, &change.target, &change.devices);
        Ok(match ask_for(cx, &allocation, TaskKind::Resize, "resize", details).await? {
            Asked::Pending(act) => act,
            Asked::Done(..) => StepOutcome::done().into(),
            Asked::Failed(message) => {
                StepOutcome::Refused { reason: FailureReason::PrepareFailed.as_str(), message }.into()
            }
        })
    })
}

fn undo<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<StepAction>> {
    Box::pin(async move {
        let allocation = subject(cx).await?;
        let Some(change) = change(cx)? else {
            return Ok(StepOutcome::with_message("nothing was applied").into());
        };
        let added: Vec<String> =
            change.devices.iter().filter(|device| !change.devices_before.contains(device)).cloned().collect();
        let before = sized(&allocation, &change.before, &change.devices_before);
        let wiped = Details { devices: added, ..owned(&allocation) };
        let asks = [
            (TaskKind::Resize, "undo resize", before),
            (TaskKind::Wipe, "undo wipe", wiped.clone()),
            (TaskKind::Inspect, "undo inspect", wiped),
        ];
        for (kind, purpose, details) in asks {
            match ask_for(cx, &allocation, kind, purpose, details).await? {
                Asked::Pending(act) => return Ok(act),
                Asked::Done(_, found) if kind == TaskKind::Inspect && !found.residue.is_empty() => {
                    return Ok(refused(format!("not wiped: {:?}", found.residue)));
                }
                Asked::Done(..) => {}
                Asked::Failed(message) => return Ok(refused(message)),
            }
        }
        Ok(StepOutcome::with_message("the old size is restored").into())
    })
}

fn refused(message: String) -> StepAction {
    StepOutcome::Refused { reason: FailureReason::WipeFailed.as_str(), message }.into()
}
