//! Creates a cell: provision (undo: destroy) · connect · verify that its services are ready.

use muster_db::Result;
use muster_model::cell::{Cell, CellFailure, CellState};
use muster_model::event::EventType;
use muster_model::operation::{OperationKind, OperationState};
use serde_json::json;

use super::connect::CONNECT;
use super::provision::PROVISION;
use super::subject::{path, subject};
use super::verify_running::VERIFY_RUNNING;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{StepAction, StepOutcome};

/// `cell.create`.
pub const CREATE: Definition = Definition {
    kind: OperationKind::CellCreate,
    steps: &[PROVISION, CONNECT, VERIFY_RUNNING],
    on_failure: OnFailure::Undo,
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Undo,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// Fails a cell that was not created, with the reason; its address and ports are free again.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let cell = subject(cx).await?;
    if state == OperationState::Succeeded || cell.state.is_final() {
        return Ok(StepOutcome::done().into());
    }
    let reason = match state {
        OperationState::Cancelled => CellFailure::Cancelled,
        _ => why(cx, &cell).await?,
    };
    let message = cx.operation.message.clone();
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            let after = Cell { state: CellState::Failed, reason: Some(reason), message, ..cell.clone() };
            tx.cell_move(&cell, &after, now).await?;
            tx.bump_desired(cell.network_id, cell.node_id).await?;
            effects.tasks_for.push(cell.node_id);
            let data = json!({"reason": reason, "advice": reason.advice()});
            effects.events.push((EventType::CellFailed, path(&after), data));
            Ok(StepOutcome::done())
        })
    }))
}

/// Returns the operation's reason, made more specific for a deadline so that the owner can act on it.
async fn why(cx: &StepCx<'_>, cell: &Cell) -> Result<CellFailure> {
    let given = cx.operation.reason.as_deref().and_then(CellFailure::parse);
    let given = given.unwrap_or(CellFailure::MakeFailed);
    if given != CellFailure::DeadlinePassed {
        return Ok(given);
    }
    let node = cx.store.node_lookup(cell.node_id).await?;
    let made = cx.operation.step("provision").is_some_and(|step| step.ended_at.is_some());
    Ok(match node {
        Some(node) if node.unreachable_since.is_some() => CellFailure::NodeUnreachable,
        _ if made => CellFailure::NotReady,
        _ => CellFailure::DeadlinePassed,
    })
}
