//! The node is not ours any more: its certificate is refused from this commit on.

use futures::future::BoxFuture;
use muster_db::{Result, StoreError};
use muster_model::event::EventType;
use serde_json::json;

use super::subject;
use crate::definition::{Step, StepCx, Undo};
use crate::{Act, Verdict};

pub(super) const SIGN_OFF: Step = Step {
    name: "sign_off",
    does: "takes the node out of the fleet",
    verifies: false,
    run,
    undo: Undo::None("a node that was signed off joins again with a new identity"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let node = subject(cx).await?;
        if node.retired_at.is_some() {
            return Ok(Verdict::said("it was retired before").into());
        }
        if node.holders > 0 {
            let message = format!("{} allocations hold something of it: drain it first", node.holders);
            return Ok(Verdict::Refused { reason: "not_empty", message }.into());
        }
        let evidence = cx.operation.step("survey").and_then(|step| step.witness_id);
        let witness = evidence.ok_or(StoreError::Corrupt("evidence"))?;
        let now = cx.now;
        Ok(Act::write(move |tx, told| {
            Box::pin(async move {
                tx.node_retire(node.id, witness, now).await?;
                let data = json!({"name": node.name, "witness_id": witness});
                told.events.push((EventType::NodeRetired, format!("/v1/nodes/{}", node.id), data));
                Ok(Verdict::done())
            })
        }))
    })
}
