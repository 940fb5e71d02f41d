//! Waits until the other nodes of the network have configured the cell, so that its neighbours can reach it from the start.
//!
//! A node that does not reconcile in time is named and no longer waited for: it catches up on its own, and a cell must not
//! depend on the health of other machines.

use jiff::SignedDuration;
use muster_db::Result;
use serde_json::json;

use super::subject::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const CONNECT: Step = Step {
    name: "connect",
    does: "wait until the nodes of its network have reconciled",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("the desired state of nodes follows the cell's own state"),
};

const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
const LOOK: SignedDuration = SignedDuration::from_millis(50);

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let cell = subject(cx).await?;
    let behind = cx.store.nodes_behind(cell.network_id).await?;
    if behind.is_empty() {
        return Ok(StepOutcome::done().into());
    }
    let began = cx.operation.step(cx.step).and_then(|step| step.started_at).unwrap_or(cx.now);
    if cx.now < began + PATIENCE {
        let reason = format!("these nodes have not reconciled yet: {}", behind.join(", "));
        return Ok(StepOutcome::Wait { reason, until: cx.now + LOOK }.into());
    }
    let message = format!("these nodes did not reconcile in time, and follow later: {}", behind.join(", "));
    Ok(StepOutcome::Done { output: json!({"behind": behind}), message: Some(message), witness: None }.into())
}
