//! Verifies that no platform resource is left on the node, or accepts the operator's attestation if the node cannot be
//! reached.

use muster_db::Result;
use muster_ids::TypedId as _;
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::compare::found;
use super::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const SURVEY: Step = Step {
    name: "survey",
    does: "verify that the node holds nothing",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let node = subject(cx).await?;
    let word = cx.operation.input.attest.clone();
    let mut witness = Witness {
        id: cx.env.id(),
        subject_id: node.id.uuid(),
        transition: Transition::Retired,
        kind: WitnessKind::Witnessed,
        incarnation: node.session,
        operation_id: Some(cx.operation.id),
        node_id: Some(node.id),
        task_id: None,
        actor_id: None,
        checked: json!(["no sandbox is left on the node", "nor any other resource of the platform"]),
        result: json!({}),
        at: cx.now,
    };
    match word {
        Some(word) => {
            witness.kind = WitnessKind::Attested;
            witness.actor_id = Some(cx.operation.asked_by.id.clone());
            witness.checked = json!([]);
            witness.result = json!({"statement": word});
        }
        None => match found(cx, &node, "survey").await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Failed(message) => {
                return Ok(StepOutcome::Refused { reason: "verify_failed", message }.into());
            }
            Asked::Done(_, found) if !found.sandboxes.is_empty() => {
                let message = format!("{} sandboxes are still on it", found.sandboxes.len());
                return Ok(StepOutcome::Refused { reason: "verify_failed", message }.into());
            }
            Asked::Done(_, found) if !found.resources.is_empty() => {
                let named: Vec<&str> =
                    found.resources.iter().take(10).map(|thing| thing.name.as_str()).collect();
                let message = format!(
                    "{} resources of the platform are still on it: {}",
                    found.resources.len(),
                    named.join(", ")
                );
                return Ok(StepOutcome::Refused { reason: "verify_failed", message }.into());
            }
            Asked::Done(task, _) => {
                witness.task_id = Some(task.id);
                witness.result = task.result.unwrap_or_else(|| json!({}));
            }
        },
    }
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
