//! Destroys a member's cell and verifies that nothing of it is left.

use muster_db::Result;
use muster_ids::TypedId as _;
use muster_model::event::Timeline;
use muster_model::member::{Member, MemberFailure};
use muster_model::operation::OperationState;
use muster_model::operation_input::OperationInput;

use super::quarantine::quarantine;
use super::release::{is_released_by_parent, takes_along};
use super::subject::{refused, subject};
use crate::cell::DESTROY;
use crate::child::{self, ChildRequest};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::cell_of;
use crate::{StepAction, StepOutcome, supersede};

pub(super) const DESTROY_CELL: Step = Step {
    name: "destroy_cell",
    does: "destroy the cell and verify that nothing is left",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a destroyed cell is not recreated without its owner"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    match quarantine(cx, &member).await? {
        Some(act) => Ok(act),
        None => destroy_cell(cx, &member).await,
    }
}

/// Destroys the cell of a member.
pub(super) async fn destroy_cell(cx: &StepCx<'_>, member: &Member) -> Result<StepAction> {
    let Some(cell) = cell_of(cx, member).await?.filter(|cell| !cell.state.is_final()) else {
        return Ok(StepOutcome::with_message("it has no cell").into());
    };
    if let Some(child) = child::find(cx, "destroy").await? {
        return Ok(match child.state {
            OperationState::Succeeded => StepOutcome::with_message("its cell is gone").into(),
            state if !state.is_final() => child::wait(cx, &child),
            _ => refused(MemberFailure::ProvisionFailed, child::why(&child)).into(),
        });
    }
    // Do not wait for an unreachable node if the whole allocation is released anyway: the release verifies for itself.
    let lost = cx.store.node_lookup(cell.node_id).await?.is_some_and(|node| node.unreachable_since.is_some());
    if lost && (is_released_by_parent(cx, member).await? || takes_along(cx, member).await?) {
        return Ok(StepOutcome::with_message(
            "its node is unreachable: the cell is destroyed with its allocation",
        )
        .into());
    }
    let under_way = cx.store.operation_open_on(cell.id.uuid()).await?;
    let mut destroy = child::make(
        cx,
        "destroy",
        ChildRequest {
            definition: &DESTROY,
            subject_kind: "cell",
            subject_id: cell.id.uuid(),
            subject_name: cell.name.clone(),
            timeline: Timeline::default(),
            input: OperationInput::default(),
            deadline_at: cx.now + cx.timing.release,
        },
    );
    let (now, look, parent, env) = (cx.now, cx.timing.look, cx.operation.parent_id, cx.env.clone());
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            // Siblings may be waiting only for this member's withdrawal.
            if let Some(parent) = parent {
                tx.operation_wake(parent, now).await?;
            }
            for old in under_way {
                supersede(tx, &env, &old, &mut destroy, now).await?;
            }
            tx.operation_open(&destroy).await?;
            Ok(StepOutcome::Wait { reason: "its cell is being destroyed".to_owned(), until: now + look })
        })
    }))
}
