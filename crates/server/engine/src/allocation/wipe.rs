//! Wipes the allocation's resources on the node.

use muster_db::Result;
use muster_model::allocation::FailureReason;
use muster_model::node::Capacity;
use muster_model::operation::OperationKind;

use super::quarantine::quarantine;
use super::subject::{ask_node, attested, on_word, subject, wipe_act};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const WIPE: Step = Step {
    name: "wipe",
    does: "wipe devices and disk on the node",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("a wipe cannot be undone"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let placed =
        allocation.held != Capacity::default() || cx.operation.kind == OperationKind::AllocationClean;
    let Some(node) = allocation.node_id.filter(|_| placed) else {
        return Ok(StepOutcome::with_message("it never held anything").into());
    };
    if let Some(word) = attested(cx, &allocation).await? {
        return Ok(on_word(&word).into());
    }
    if let Some(act) = quarantine(cx, &allocation).await? {
        return Ok(act);
    }
    Ok(match ask_node(cx, &allocation, node, wipe_act, "wipe").await? {
        Asked::Pending(act) => act,
        Asked::Done(..) => StepOutcome::done().into(),
        Asked::Failed(message) => {
            StepOutcome::Refused { reason: FailureReason::WipeFailed.as_str(), message }.into()
        }
    })
}
