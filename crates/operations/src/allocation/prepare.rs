//! Have the node make the allocation's place. The undo destroys it, wipes what it held, and witnesses both.

use futures::future::BoxFuture;
use muster_model::allocation::FailureReason;
use muster_model::node::Capacity;
use muster_model::task::TaskKind;
use muster_model::witness::Transition;
use muster_store::Result;
use serde_json::json;

use super::subject::{ask_node, attested, evidence, on_word, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{Act, Verdict};

pub(super) const PREPARE: Step = Step {
    name: "prepare",
    does: "has the node make its place",
    verifies: false,
    run,
    undo: Undo::Run(undo),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let allocation = subject(cx).await?;
        let Some(node) = allocation.node_id else {
            return Ok(refused("it has no node".to_owned()).into());
        };
        Ok(match ask_node(cx, &allocation, node, TaskKind::Prepare, "prepare").await? {
            Asked::Pending(act) => act,
            Asked::Done(..) => Verdict::with(json!({"incarnation": allocation.incarnation})).into(),
            Asked::Failed(why) => refused(why).into(),
        })
    })
}

fn refused(message: String) -> Verdict {
    Verdict::Refused { reason: FailureReason::PrepareFailed.as_str(), message }
}

/// The same order as a release: destroy, see that it is gone, wipe, see that it is wiped. The slots are not given back before.
fn undo<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let allocation = subject(cx).await?;
        let Some(node) = allocation.node_id.filter(|_| allocation.held != Capacity::default()) else {
            return Ok(Verdict::said("no place was made").into());
        };
        if let Some(word) = attested(cx, &allocation).await? {
            return Ok(on_word(&word).into());
        }
        for (kind, purpose) in [(TaskKind::Destroy, "undo destroy"), (TaskKind::Wipe, "undo wipe")] {
            match ask_node(cx, &allocation, node, kind, purpose).await? {
                Asked::Pending(act) => return Ok(act),
                Asked::Done(..) => {}
                Asked::Failed(why) => return Ok(unwiped(format!("{kind} failed: {why}")).into()),
            }
        }
        let (task, found) = match ask_node(cx, &allocation, node, TaskKind::Inspect, "undo inspect").await? {
            Asked::Pending(act) => return Ok(act),
            Asked::Done(task, found) => (task, found),
            Asked::Failed(why) => return Ok(unwiped(format!("it could not be inspected: {why}")).into()),
        };
        if found.present || !found.residue.is_empty() {
            let why = format!("something is left: present {}, residue {:?}", found.present, found.residue);
            return Ok(unwiped(why).into());
        }
        let checked = json!(["the place is gone", "its devices and disk are wiped"]);
        let witness = evidence(cx, &allocation, Transition::Wiped, &task, checked);
        Ok(Act::write(move |tx, _| {
            Box::pin(async move {
                tx.witness_insert(&witness).await?;
                Ok(Verdict::Done {
                    output: json!(null),
                    message: Some("destroyed and wiped".to_owned()),
                    witness: Some(witness.id),
                })
            })
        }))
    })
}

fn unwiped(message: String) -> Verdict {
    Verdict::Refused { reason: FailureReason::WipeFailed.as_str(), message }
}
