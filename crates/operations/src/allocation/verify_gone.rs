//! See for ourselves that nothing of the place is left.

use futures::future::BoxFuture;
use muster_model::allocation::{Allocation, AllocationState, FailureReason};
use muster_model::node::Capacity;
use muster_model::task::TaskKind;
use muster_model::witness::Transition;
use muster_store::Result;
use serde_json::json;

use super::subject::{ask_node, attested, evidence, on_word, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{Act, Verdict};

pub(super) const VERIFY_GONE: Step = Step {
    name: "verify_gone",
    does: "looks whether anything of the place is left",
    verifies: true,
    run,
    undo: Undo::None("looking changes nothing"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let allocation = subject(cx).await?;
        let placed = allocation.held != Capacity::default() || cx.operation.kind == "allocation.clean";
        let Some(node) = allocation.node_id.filter(|_| placed) else {
            return Ok(Verdict::said("it never had a place").into());
        };
        if let Some(word) = attested(cx, &allocation).await? {
            return Ok(on_word(&word).into());
        }
        let (task, found) = match ask_node(cx, &allocation, node, TaskKind::Inspect, "inspect").await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Done(task, found) => (task, found),
            Asked::Failed(message) => {
                let reason = FailureReason::VerifyFailed.as_str();
                return Ok(Verdict::Refused { reason, message }.into());
            }
        };
        if found.present {
            let message = "the node says that it destroyed the place, but it is still there".to_owned();
            return Ok(Verdict::Refused { reason: FailureReason::VerifyFailed.as_str(), message }.into());
        }
        let witness = evidence(cx, &allocation, Transition::Gone, &task, json!(["the place is gone"]));
        let now = cx.now;
        Ok(Act::write(move |tx, _| {
            Box::pin(async move {
                tx.witness_insert(&witness).await?;
                if allocation.state == AllocationState::Releasing {
                    let after = Allocation { state: AllocationState::Wiping, ..allocation.clone() };
                    tx.allocation_move(&allocation, &after, now).await?;
                }
                Ok(Verdict::witnessed(witness.id, json!(null)))
            })
        }))
    })
}
