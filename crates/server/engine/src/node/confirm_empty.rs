//! Removes the node from the fleet: its certificate is rejected from this commit on.

use muster_db::{Result, StoreError};
use muster_model::event::EventType;
use serde_json::json;

use super::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const CONFIRM_EMPTY: Step = Step {
    name: "confirm_empty",
    does: "retire the node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a retired node joins again with a new identity"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    if node.retired_at.is_some() {
        return Ok(StepOutcome::with_message("already retired").into());
    }
    if node.holders > 0 {
        let message = format!("{} allocations are on it: drain it first", node.holders);
        return Ok(StepOutcome::Refused { reason: "not_empty", message }.into());
    }
    let evidence = cx.operation.step("survey").and_then(|step| step.witness_id);
    let witness = evidence.ok_or(StoreError::Corrupt("evidence"))?;
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.node_retire(node.id, witness, now).await?;
            let data = json!({"name": node.name, "witness_id": witness});
            effects.events.push((EventType::NodeRetired, format!("/v1/nodes/{}", node.id), data));
            Ok(StepOutcome::done())
        })
    }))
}
