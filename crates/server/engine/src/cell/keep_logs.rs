//! Archives the tail of the cell's service logs before the cell is destroyed.

use muster_db::{Result, Tx};
use muster_model::allocation::AllocationState;
use muster_model::cell::{Cell, CellLog, CellState};
use muster_model::event::EventType;
use serde_json::json;

use super::subject::{allocation, keep_logs_act, order, path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::{Asked, ask};
use crate::{StepAction, StepOutcome};

pub(super) const KEEP_LOGS: Step = Step {
    name: "keep_logs",
    does: "archive the logs of its services",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("archived logs do no harm"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let cell = subject(cx).await?;
    let allocation = allocation(cx, &cell).await?;
    if cell.state.is_final() || cell.incarnation == 0 || allocation.state != AllocationState::Active {
        return Ok(StepOutcome::with_message("it has no logs").into());
    }
    if cell.state != CellState::Destroying {
        let (now, operation_id) = (cx.now, cx.operation.id);
        return Ok(StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                let after =
                    Cell { state: CellState::Destroying, operation_id: Some(operation_id), ..cell.clone() };
                tx.cell_move(&cell, &after, now).await?;
                effects.events.push((EventType::CellDestroying, path(&after), json!({})));
                Ok(StepOutcome::Wait { reason: "its state is recorded".to_owned(), until: now })
            })
        }));
    }
    let wanted = order(&cell, &allocation, keep_logs_act(&cell, &allocation), "keep logs");
    let found = match ask(cx, &wanted).await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(_, found) => found,
        // An unreadable log must not keep its cell alive.
        Asked::Failed(why) => {
            return Ok(StepOutcome::with_message(format!("the logs could not be archived: {why}")).into());
        }
    };
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            keep(tx, &cell, &found.logs, now).await?;
            Ok(StepOutcome::with_message(format!("of {} services", found.logs.len())))
        })
    }))
}

/// Archives the logs that an agent reported for this cell.
pub(crate) async fn keep(
    tx: &mut Tx,
    cell: &Cell,
    logs: &[muster_wire::task::KeptLog],
    now: jiff::Timestamp,
) -> Result<()> {
    for log in logs.iter().filter(|log| log.cell_id == cell.id) {
        let kept = CellLog {
            incarnation: cell.incarnation,
            service: log.service.clone(),
            // Database text cannot hold NUL, and a service may write any bytes.
            text: log.text.replace('\0', "\u{fffd}"),
            truncated: log.truncated,
            kept_at: now,
        };
        tx.cell_log_keep(cell.id, &kept).await?;
    }
    Ok(())
}
