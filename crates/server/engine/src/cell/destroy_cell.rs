//! Destroys the cell on the node.

use muster_db::Result;
use muster_model::allocation::AllocationState;
use muster_model::cell::CellFailure;

use super::subject::{allocation, destroy_act, order, refused, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const DESTROY_CELL: Step = Step {
    name: "destroy_cell",
    does: "destroy the cell on the node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a destroyed cell is not recreated without its owner"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let cell = subject(cx).await?;
    let allocation = allocation(cx, &cell).await?;
    if cell.state.is_final() || cell.incarnation == 0 {
        return Ok(StepOutcome::with_message("it does not exist").into());
    }
    if allocation.state != AllocationState::Active {
        return Ok(StepOutcome::with_message(format!(
            "its allocation is {}, and the cell is destroyed with it",
            allocation.state
        ))
        .into());
    }
    let wanted = order(&cell, &allocation, destroy_act(cx, &cell, &allocation), "destroy");
    Ok(match ask(cx, &wanted).await? {
        Asked::Pending(act) => act,
        Asked::Done(..) => StepOutcome::done().into(),
        Asked::Failed(why) => refused(CellFailure::DestroyFailed, why).into(),
    })
}
