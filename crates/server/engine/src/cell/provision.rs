//! Creates the cell on the node and starts its services. The undo destroys it and verifies that.

use muster_db::Result;
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellFailure, CellState};
use muster_model::event::EventType;
use muster_model::witness::Transition;
use muster_wire::task::Refusal;
use serde_json::json;

use super::keep_logs::keep;
use super::subject::{
    allocation, create_act, destroy_act, evidence, inspect_act, keep_logs_act, order, refused, seen, subject,
};
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Asked, ask, refusal};
use crate::{StepAction, StepOutcome};

pub(super) const PROVISION: Step = Step {
    name: "provision",
    does: "create the cell on the node and start its services",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let cell = subject(cx).await?;
    let allocation = allocation(cx, &cell).await?;
    if allocation.state != AllocationState::Active {
        let why = format!("its allocation {} is {}", allocation.name, allocation.state);
        return Ok(refused(CellFailure::AllocationEnded, why).into());
    }
    // Each creation is a new incarnation, committed before any task is queued; also when a superseded operation had
    // begun to create it.
    if cell.state != CellState::Provisioning || cell.operation_id != Some(cx.operation.id) {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, _| {
            Box::pin(async move {
                let after = Cell {
                    state: CellState::Provisioning,
                    incarnation: cell.incarnation + 1,
                    operation_id: Some(operation_id),
                    ..cell.clone()
                };
                tx.cell_move(&cell, &after, now).await?;
                Ok(StepOutcome::Wait { reason: "its incarnation is recorded".to_owned(), until: now })
            })
        }));
    }
    let wanted = order(&cell, &allocation, create_act(cx, &cell, &allocation).await?, "create");
    Ok(match ask(cx, &wanted).await? {
        Asked::Pending(act) => act,
        Asked::Done(..) => StepOutcome::with(json!({"incarnation": cell.incarnation})).into(),
        Asked::Failed(why) => return not_made(&cell, why, refusal(cx, &wanted).await?),
    })
}

/// Maps the node's refusal to a failure reason, with its named cause if there is one.
fn not_made(cell: &Cell, why: String, refusal: Option<Refusal>) -> Result<StepAction> {
    let reason = match refusal {
        None | Some(Refusal::Unsupported | Refusal::CellDead | Refusal::NodeFull) => CellFailure::MakeFailed,
        Some(Refusal::ArtifactPull) => CellFailure::ArtifactPull,
        Some(Refusal::ArtifactDamaged) => CellFailure::ArtifactDamaged,
        Some(Refusal::ArtifactUntrusted) => CellFailure::ArtifactUntrusted,
        Some(Refusal::Secret) => CellFailure::SecretRefused,
    };
    let outcome = refused(reason, why.clone());
    let about_it = matches!(reason, CellFailure::ArtifactDamaged | CellFailure::ArtifactUntrusted);
    let Some(artifact_id) = cell.artifact_id.filter(|_| about_it) else { return Ok(outcome.into()) };
    let path = format!("/v1/projects/{}/artifacts/{artifact_id}", cell.project_id);
    let data =
        json!({"cell_id": cell.id, "node_id": cell.node_id, "reason": reason.as_str(), "message": why});
    Ok(StepAction::commit(move |_, effects| {
        Box::pin(async move {
            effects.events.push((EventType::ArtifactRefused, path, data));
            Ok(outcome)
        })
    }))
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let cell = subject(cx).await?;
    if cell.incarnation == 0 {
        return Ok(StepOutcome::with_message("it was never created").into());
    }
    let allocation = allocation(cx, &cell).await?;
    // The end of the allocation destroys all of its cells, and verifies that itself.
    if cell.state.is_final() || allocation.state != AllocationState::Active {
        return Ok(StepOutcome::with_message(format!(
            "its allocation is {}, and the cell is destroyed with it",
            allocation.state
        ))
        .into());
    }
    // The logs usually show why it is being destroyed.
    let wanted = order(&cell, &allocation, keep_logs_act(&cell, &allocation), "undo keep logs");
    let logs = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(_, found) => found.logs,
        Asked::Failed(_) => Vec::new(),
    };
    let wanted = order(&cell, &allocation, destroy_act(cx, &cell, &allocation), "undo destroy");
    match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(..) => {}
        Asked::Failed(why) => return Ok(refused(CellFailure::DestroyFailed, why).into()),
    }
    let wanted = order(&cell, &allocation, inspect_act(&cell, &allocation), "undo inspect");
    let (task, found) = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(task, found) => (task, seen(&found)),
        Asked::Failed(why) => return Ok(refused(CellFailure::VerifyFailed, why).into()),
    };
    if found.present || !found.left.is_empty() {
        let why = format!("something is left: {}", found.left.join("; "));
        return Ok(refused(CellFailure::VerifyFailed, why).into());
    }
    let witness = evidence(cx, &cell, Transition::Destroyed, &task, json!(found.checked));
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            keep(tx, &cell, &logs, now).await?;
            tx.witness_insert(&witness).await?;
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
