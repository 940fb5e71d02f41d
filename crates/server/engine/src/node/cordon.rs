//! Cordons a node that is being drained.

use muster_db::Result;
use muster_model::event::EventType;
use serde_json::json;

use super::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const CORDON: Step = Step {
    name: "cordon",
    does: "cordon the node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    if node.draining {
        return Ok(StepOutcome::with_message("already cordoned").into());
    }
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.node_set_draining(node.id, true, node.cordoned, now).await?;
            effects.events.push((
                EventType::NodeDraining,
                format!("/v1/nodes/{}", node.id),
                json!({"name": node.name}),
            ));
            Ok(StepOutcome::with(json!({"cordoned": node.cordoned})))
        })
    }))
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    if !node.draining {
        return Ok(StepOutcome::with_message("already uncordoned").into());
    }
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.node_set_draining(node.id, false, node.cordoned, now).await?;
            tx.operation_wake_queued(now, 8).await?;
            Ok(StepOutcome::with_message("uncordoned again"))
        })
    }))
}
