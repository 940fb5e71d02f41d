//! Archives the tail of the service logs of its cells before they are destroyed.

use muster_db::Result;
use muster_wire::act::{Act, KeepLogs};

use super::subject::{ask_act, attested, owned_allocation, subject};
use crate::cell::keep;
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const KEEP_LOGS: Step = Step {
    name: "keep_logs",
    does: "archive the logs of its cells",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("archived logs do no harm"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let cells = cx.store.cell_live_in(allocation.id).await?;
    let Some(node) = allocation.node_id.filter(|_| !cells.is_empty()) else {
        return Ok(StepOutcome::with_message("it holds no cells").into());
    };
    // The release does not wait for the logs of an unreachable node.
    let lost = cx.store.node_lookup(node).await?.is_none_or(|node| node.unreachable_since.is_some());
    if lost || attested(cx, &allocation).await?.is_some() {
        return Ok(StepOutcome::with_message("the node is unreachable, so no logs were archived").into());
    }
    let act = Act::KeepLogs(KeepLogs { allocation: owned_allocation(&allocation), cell: None });
    let found = match ask_act(cx, &allocation, node, act, "keep logs").await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(_, found) => found,
        Asked::Failed(why) => {
            return Ok(StepOutcome::with_message(format!("the logs could not be archived: {why}")).into());
        }
    };
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            for cell in &cells {
                keep(tx, cell, &found.logs, now).await?;
            }
            Ok(StepOutcome::with_message(format!(
                "of {} services in {} cells",
                found.logs.len(),
                cells.len()
            )))
        })
    }))
}
