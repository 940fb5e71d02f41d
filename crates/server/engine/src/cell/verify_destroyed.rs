//! Verifies that nothing of the cell is left: no process, mount, namespace, link, rule, control group or file.

use muster_db::Result;
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellFailure, CellState};
use muster_model::event::EventType;
use muster_model::operation::OperationKind;
use muster_model::witness::Transition;
use serde_json::json;

use super::subject::{allocation, evidence, inspect_act, order, path, refused, seen, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_DESTROYED: Step = Step {
    name: "verify_destroyed",
    does: "verify that nothing of it is left on the node",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let cell = subject(cx).await?;
    if cell.state.is_final() {
        return Ok(StepOutcome::with_message(format!("it is already {}", cell.state)).into());
    }
    let allocation = allocation(cx, &cell).await?;
    if allocation.state != AllocationState::Active {
        // The end of the allocation verifies everything, this cell included, and records its evidence.
        let reason = format!("its allocation is {}, and the cell is destroyed with it", allocation.state);
        return Ok(StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into());
    }
    let wanted = order(&cell, &allocation, inspect_act(&cell, &allocation), "inspect");
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(task, found) => (task, seen(&found)),
        Asked::Failed(why) => return Ok(refused(CellFailure::VerifyFailed, why).into()),
    };
    if found.present || !found.left.is_empty() {
        let what = if found.present { vec!["it still runs".to_owned()] } else { found.left };
        let why = format!("the node reported it as destroyed, but: {}", what.join("; "));
        return Ok(refused(CellFailure::VerifyFailed, why).into());
    }
    let witness = evidence(cx, &cell, Transition::Destroyed, &task, json!(found.checked));
    let (now, operation_id) = (cx.now, cx.operation.id);
    let again = cx.operation.kind == OperationKind::CellRestart;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            if !again {
                let after = Cell {
                    state: CellState::Destroyed,
                    destroyed_witness_id: Some(witness.id),
                    operation_id: Some(operation_id),
                    ..cell.clone()
                };
                tx.cell_move(&cell, &after, now).await?;
                effects.tasks_for.extend(tx.bump_desired(cell.network_id, cell.node_id).await?);
                let data = json!({"incarnation": cell.incarnation, "witness_id": witness.id});
                effects.events.push((EventType::CellDestroyed, path(&after), data));
            }
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
