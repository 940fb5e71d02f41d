//! Verifies that nothing of an instance is left: no member, no cell in its network, no shared directory, no secret.

use muster_db::Result;
use muster_ids::TypedId as _;
use muster_model::event::EventType;
use muster_model::instance::{Health, Instance, InstanceState};
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::subject::{path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_STOPPED: Step = Step {
    name: "verify_stopped",
    does: "verify that nothing is left",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let instance = subject(cx).await?;
    let living = cx.store.member_living(instance.id).await?;
    let neighbours = cx.store.network_neighbours(instance.network_id).await?;
    let network = cx.store.network_lookup(instance.network_id).await?;
    let shared = network.is_some_and(|network| network.shared_files.is_some());
    if !living.is_empty() || !neighbours.is_empty() || shared {
        let also = if shared { ", and their shared files" } else { "" };
        let message =
            format!("{} members and {} cells of its network are left{also}", living.len(), neighbours.len());
        return Ok(StepOutcome::Refused { reason: "some_failed", message }.into());
    }
    let mut checked =
        vec![json!({"what": "its members", "left": 0}), json!({"what": "cells in its network", "left": 0})];
    if let Some(unshared) =
        cx.operation.step("unshare").map(|step| &step.output).filter(|output| output.is_object())
    {
        let mut seen = json!({"what": "what its members shared"});
        for (key, value) in unshared.as_object().into_iter().flatten() {
            seen[key] = value.clone();
        }
        checked.push(seen);
    }
    let word = cx.store.member_attested(instance.id).await?;
    let attested = word.is_some();
    let witness = Witness {
        id: cx.env.id(),
        subject_id: instance.id.uuid(),
        transition: Transition::Stopped,
        // An attestation for one of its members makes the whole instance attested.
        kind: if attested { WitnessKind::Attested } else { WitnessKind::Witnessed },
        incarnation: 0,
        operation_id: Some(cx.operation.id),
        node_id: None,
        task_id: None,
        actor_id: word,
        checked: json!(checked),
        result: json!({}),
        at: cx.now,
    };
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.runtime_secret_revoke_of_instance(instance.id, now).await?;
            tx.witness_insert(&witness).await?;
            let after = Instance {
                state: InstanceState::Stopped,
                health: Health::Unknown,
                health_message: None,
                health_since: Some(now),
                stopped_witness_id: Some(witness.id),
                reconcile_due_at: None,
                ..instance.clone()
            };
            tx.instance_move(&instance, &after, now).await?;
            // If the entitlement was revoked, its adapter was kept authorized for this instance alone.
            tx.entitlement_account_rest(instance.operator_account_id, now).await?;
            let data = json!({"name": instance.name, "witness_id": witness.id, "evidence": witness.kind});
            effects.events.push((EventType::InstanceStopped, path(&after), data));
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
