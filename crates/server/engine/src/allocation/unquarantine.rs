//! Returns verified slots from quarantine: they can be claimed again.

use muster_db::{Result, StoreError};
use serde_json::json;

use super::subject::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const UNQUARANTINE: Step = Step {
    name: "unquarantine",
    does: "return its slots to the pool",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a free slot may be claimed again already"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let node = allocation.node_id.ok_or(StoreError::Corrupt("a node"))?;
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.node_lock(node).await?;
            let slots = tx.slot_clean_of(allocation.id, now).await?;
            tx.node_recount(node).await?;
            tx.operation_wake_queued(now, 8).await?;
            Ok(StepOutcome::with(json!({"slots": slots})))
        })
    }))
}
