//! Destroys the allocation's sandbox on the node.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationState, FailureReason};
use muster_model::event::EventType;
use muster_model::node::Capacity;
use muster_model::operation::{Operation, OperationKind, OperationState};
use serde_json::json;

use super::quarantine::quarantine;
use super::subject::{ask_node, attested, destroy_act, on_word, path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome, Timing, resume_blocked};

pub(super) const DESTROY: Step = Step {
    name: "destroy",
    does: "destroy the sandbox on the node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a destroyed sandbox is not recreated without its owner"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let next = match (cx.operation.kind.as_str(), allocation.state) {
        ("allocation.restart", AllocationState::Active) => Some(AllocationState::Provisioning),
        ("allocation.release", AllocationState::Active | AllocationState::Provisioning) => {
            Some(AllocationState::Releasing)
        }
        _ => None,
    };
    if let Some(state) = next {
        let (now, operation_id, timing) = (cx.now, cx.operation.id, *cx.timing);
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let after = Allocation { state, operation_id: Some(operation_id), ..allocation.clone() };
                tx.allocation_move(&allocation, &after, now).await?;
                if state == AllocationState::Releasing {
                    resume_cells(tx, after.id, &timing, now).await?;
                    effects.events.push((EventType::AllocationReleasing, path(&after), json!({})));
                }
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    let placed =
        allocation.held != Capacity::default() || cx.operation.kind == OperationKind::AllocationClean;
    let Some(node) = allocation.node_id.filter(|_| placed) else {
        return Ok(StepOutcome::with_message("it never had a sandbox").into());
    };
    if let Some(word) = attested(cx, &allocation).await? {
        return Ok(on_word(&word).into());
    }
    if let Some(act) = quarantine(cx, &allocation).await? {
        return Ok(act);
    }
    Ok(match ask_node(cx, &allocation, node, destroy_act, "destroy").await? {
        Asked::Pending(act) => act,
        Asked::Done(..) => StepOutcome::done().into(),
        Asked::Failed(message) => {
            StepOutcome::Refused { reason: FailureReason::DestroyFailed.as_str(), message }.into()
        }
    })
}

/// Resumes the blocked destructions of cells: whatever stopped them, the release destroys the cells with the allocation.
async fn resume_cells(tx: &mut Tx, allocation: AllocationId, timing: &Timing, now: Timestamp) -> Result<()> {
    for cell in tx.cell_live_in_now(allocation).await? {
        let open = tx.operation_open_on_now(cell.id.uuid()).await?;
        let stuck = |operation: &&Operation| {
            operation.kind == OperationKind::CellDestroy && operation.state == OperationState::Blocked
        };
        for blocked in open.iter().filter(stuck) {
            resume_blocked(tx, blocked.id, timing, now).await?;
        }
    }
    Ok(())
}
