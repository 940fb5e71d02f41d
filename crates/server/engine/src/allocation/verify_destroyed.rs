//! Verifies that nothing of the sandbox is left.

use muster_db::Result;
use muster_model::allocation::{Allocation, AllocationState, FailureReason};
use muster_model::cell::Cell;
use muster_model::node::Capacity;
use muster_model::operation::OperationKind;
use muster_model::witness::Transition;
use muster_wire::act::{Act, Inspect};
use serde_json::json;

use super::cells::gone;
use super::quarantine::quarantine;
use super::stop_cells::stopped;
use super::subject::{ask_act, attested, devices, evidence, on_word, owned_allocation, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_DESTROYED: Step = Step {
    name: "verify_destroyed",
    does: "verify that nothing of the sandbox is left",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let placed =
        allocation.held != Capacity::default() || cx.operation.kind == OperationKind::AllocationClean;
    let Some(node) = allocation.node_id.filter(|_| placed) else {
        return Ok(StepOutcome::with_message("it never had a sandbox").into());
    };
    let cells = cx.store.cell_live_in(allocation.id).await?;
    // Cells stopped for a restart keep their state and have evidence of their own.
    let kept = stopped(cx)?.unwrap_or_default().cells;
    let (now, env) = (cx.now, cx.env.clone());
    if let Some(word) = attested(cx, &allocation).await? {
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                gone(tx, effects, &env, &cells, &word, now).await?;
                Ok(on_word(&word))
            })
        }));
    }
    if let Some(act) = quarantine(cx, &allocation).await? {
        return Ok(act);
    }
    // Each cell is checked on its own: its remains may name the cell and not the allocation.
    let act = Act::Inspect(Inspect {
        allocation: owned_allocation(&allocation),
        devices: devices(cx, &allocation).await?,
        cells: cells.iter().map(|cell| cell.id).collect(),
    });
    let (task, found) = match ask_act(cx, &allocation, node, act, "inspect").await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(task, found) => (task, found),
        Asked::Failed(message) => {
            let reason = FailureReason::VerifyFailed.as_str();
            return Ok(StepOutcome::Refused { reason, message }.into());
        }
    };
    if found.present {
        let message = "the node reported the sandbox as destroyed, but it still exists".to_owned();
        return Ok(StepOutcome::Refused { reason: FailureReason::VerifyFailed.as_str(), message }.into());
    }
    if !found.left.is_empty() {
        let message = format!("the sandbox is gone, but something of it is left: {}", found.left.join("; "));
        return Ok(StepOutcome::Refused { reason: FailureReason::VerifyFailed.as_str(), message }.into());
    }
    let checked =
        if found.checked.is_empty() { json!(["the sandbox is gone"]) } else { json!(found.checked) };
    let witness = evidence(cx, &allocation, Transition::Destroyed, &task, checked);
    let cells: Vec<Cell> = cells.into_iter().filter(|cell| !kept.contains(&cell.id)).collect();
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            gone(tx, effects, &env, &cells, &witness, now).await?;
            if allocation.state == AllocationState::Releasing {
                let after = Allocation { state: AllocationState::Wiping, ..allocation.clone() };
                tx.allocation_move(&allocation, &after, now).await?;
            }
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
