//! Verifies that the allocation's resources are wiped.

use muster_db::Result;
use muster_ids::TypedId as _;
use muster_model::allocation::FailureReason;
use muster_model::node::Capacity;
use muster_model::operation::OperationKind;
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::quarantine::quarantine;
use super::subject::{OnWord, ask_node, attested, evidence, inspect_act, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_WIPED: Step = Step {
    name: "verify_wiped",
    does: "verify the wipe of devices and disk",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let cleaning = cx.operation.kind == OperationKind::AllocationClean;
    if let Some(word) = attested(cx, &allocation).await? {
        return Ok(StepOutcome::witnessed(word.id, OnWord { attested: true }).into());
    }
    let placed = allocation.held != Capacity::default() || cleaning;
    if placed && let Some(act) = quarantine(cx, &allocation).await? {
        return Ok(act);
    }
    let witness = match allocation.node_id.filter(|_| placed) {
        // Nothing was ever claimed: the claims table itself is the evidence.
        None => Witness {
            id: cx.env.id(),
            subject_id: allocation.id.uuid(),
            transition: Transition::Wiped,
            kind: WitnessKind::Witnessed,
            incarnation: allocation.incarnation,
            operation_id: Some(cx.operation.id),
            node_id: None,
            task_id: None,
            actor_id: None,
            checked: json!(["nothing was claimed for it"]),
            result: json!({"claims": cx.store.claims_of(allocation.id).await?.len()}),
            at: cx.now,
        },
        Some(node) => match ask_node(cx, &allocation, node, inspect_act, "inspect").await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Failed(message) => return Ok(refused(message)),
            Asked::Done(_, found) if found.present || !found.residue.is_empty() => {
                return Ok(refused(format!("not wiped: {:?}", found.residue)));
            }
            Asked::Done(task, _) => {
                let checked = json!(["the sandbox is gone", "its devices and disk are wiped"]);
                evidence(cx, &allocation, Transition::Wiped, &task, checked)
            }
        },
    };
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            Ok(StepOutcome::witnessed(witness.id, OnWord { attested: false }))
        })
    }))
}

/// A wipe that cannot be verified is not retried silently: the operation is blocked, and the slots stay claimed meanwhile.
fn refused(message: String) -> StepAction {
    StepOutcome::Refused { reason: FailureReason::WipeFailed.as_str(), message }.into()
}
