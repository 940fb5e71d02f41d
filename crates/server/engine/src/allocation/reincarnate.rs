//! Increments the incarnation: from here on the old sandbox and all reports about it are rejected.

use muster_db::Result;
use muster_model::allocation::Allocation;
use serde_json::json;

use super::subject::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const REINCARNATE: Step = Step {
    name: "reincarnate",
    does: "raise the incarnation",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a fencing token only grows"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    // A repeat increments it once more, which is harmless.
    let after =
        Allocation { incarnation: allocation.incarnation + 1, active_witness_id: None, ..allocation.clone() };
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.allocation_move(&allocation, &after, now).await?;
            Ok(StepOutcome::with(json!({"incarnation": after.incarnation})))
        })
    }))
}
