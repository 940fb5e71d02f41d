//! Verifies that the sandbox exists and matches the request; only then is the allocation active.

use muster_db::Result;
use muster_model::allocation::{Allocation, AllocationState, FailureReason};
use muster_model::event::EventType;
use muster_model::witness::Transition;
use muster_wire::act::SandboxResources;
use muster_wire::task::Findings;
use serde_json::json;

use super::subject::{ask_node, devices, evidence, inspect_act, path, resources, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::task::Asked;
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_ACTIVE: Step = Step {
    name: "verify_active",
    does: "inspect the sandbox and compare it with the request",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    let Some(node) = allocation.node_id else { return Ok(refused("it has no node".to_owned())) };
    let (task, found) = match ask_node(cx, &allocation, node, inspect_act, "inspect").await? {
        Asked::Pending(act) => return Ok(act),
        Asked::Done(task, found) => (task, found),
        Asked::Failed(why) => return Ok(refused(why)),
    };
    let expected = resources(&allocation, devices(cx, &allocation).await?);
    if let Some(difference) = difference(&allocation, &expected, &found) {
        return Ok(refused(difference));
    }
    let checked = json!({"present": true, "incarnation": allocation.incarnation, "devices": expected.devices,
                         "amount": expected.amount});
    let witness = evidence(cx, &allocation, Transition::Active, &task, checked);
    let (now, operation_id) = (cx.now, cx.operation.id);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            let after = Allocation {
                state: AllocationState::Active,
                active_witness_id: Some(witness.id),
                operation_id: Some(operation_id),
                reason: None,
                message: None,
                ..allocation.clone()
            };
            tx.allocation_move(&allocation, &after, now).await?;
            let data =
                json!({"node_id": node, "incarnation": allocation.incarnation, "witness_id": witness.id});
            effects.events.push((EventType::AllocationActive, path(&after), data));
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}

fn refused(message: String) -> StepAction {
    StepOutcome::Refused { reason: FailureReason::VerifyFailed.as_str(), message }.into()
}

/// Returns the first difference from the expected sandbox, if any.
fn difference(allocation: &Allocation, expected: &SandboxResources, found: &Findings) -> Option<String> {
    let mut has = found.devices.clone();
    has.sort();
    if !found.present {
        return Some("the node reported the sandbox as created, but it does not exist".to_owned());
    }
    if found.incarnation != allocation.incarnation {
        return Some(format!(
            "the sandbox has incarnation {}, not {}",
            found.incarnation, allocation.incarnation
        ));
    }
    if has != expected.devices {
        return Some(format!("it has the devices {has:?}, not {:?}", expected.devices));
    }
    if found.amount != expected.amount {
        return Some(format!("it has {:?}, not {:?}", found.amount, expected.amount));
    }
    None
}

#[cfg(test)]
mod tests {
    use muster_wire::task::Amount;

    use super::*;

    #[test]
    fn every_difference_between_what_is_there_and_what_was_asked_for_is_found() {
        let amount = Amount { cpus: 4, memory_mb: 8, disk_mb: 9 };
        let expected = SandboxResources { devices: vec!["a".into(), "b".into()], amount };
        let good = Findings {
            present: true,
            incarnation: 2,
            devices: vec!["b".into(), "a".into()],
            amount,
            ..Findings::default()
        };
        let allocation = crate::allocation::create::tests::allocation(2);
        assert_eq!(difference(&allocation, &expected, &good), None);
        let bad = [
            Findings { present: false, ..good.clone() },
            Findings { incarnation: 1, ..good.clone() },
            Findings { devices: vec!["a".into()], ..good.clone() },
            Findings { amount: Amount { cpus: 3, ..amount }, ..good.clone() },
        ];
        for found in bad {
            assert!(difference(&allocation, &expected, &found).is_some(), "{found:?}");
        }
    }
}
