//! Verifies that every component has at least its minimum of active members, each with evidence; then the instance is
//! running.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use muster_db::Result;
use muster_ids::TypedId as _;
use muster_model::event::EventType;
use muster_model::instance::{Health, Instance, InstanceState};
use muster_model::member::MemberState;
use muster_model::operation::OperationKind;
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::{Value, json};

use super::subject::{path, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::member::manifest_of;
use crate::{StepAction, StepOutcome};

pub(super) const VERIFY_RUNNING: Step = Step {
    name: "verify_running",
    does: "verify that every component has its minimum of members",
    verifies: true,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("verification changes nothing"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let instance = subject(cx).await?;
    let manifest = manifest_of(cx, instance.app_version_id).await?;
    let members = cx.store.member_living(instance.id).await?;
    let mut found: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for member in members.iter().filter(|member| member.state == MemberState::Active) {
        let effects = json!({"member_id": member.id, "incarnation": member.incarnation,
                          "witness_id": member.active_witness_id, "app_version_id": member.app_version_id});
        found.entry(&member.component_key).or_default().push(effects);
    }
    for component in &manifest.components {
        let active = found.get(component.key.as_str()).map_or(0, Vec::len);
        if i64::try_from(active).unwrap_or(0) < component.count.min {
            let message =
                format!("{} has {active} active members and needs {}", component.key, component.count.min);
            return Ok(StepOutcome::Refused { reason: "below_minimum", message }.into());
        }
    }
    let witness = Witness {
        id: cx.env.id(),
        subject_id: instance.id.uuid(),
        transition: Transition::Running,
        kind: WitnessKind::Witnessed,
        incarnation: 0,
        operation_id: Some(cx.operation.id),
        node_id: None,
        task_id: None,
        actor_id: None,
        checked: json!(found),
        result: json!({}),
        at: cx.now,
    };
    let due = cx.now + SignedDuration::from_secs(i64::from(manifest.reconcile_seconds));
    let adapted = manifest.artifact_kind != muster_manifest::AppKind::Launchable;
    let (now, operation_id) = (cx.now, cx.operation.id);
    let event = match cx.operation.kind {
        OperationKind::InstanceUpgrade | OperationKind::InstanceRollback => EventType::InstanceUpgraded,
        _ => EventType::InstanceStartCompleted,
    };
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            let after = Instance {
                state: InstanceState::Running,
                health: Health::Healthy,
                health_message: None,
                health_since: Some(now),
                running_witness_id: Some(witness.id),
                operation_id: Some(operation_id),
                reconcile_due_at: adapted.then_some(due),
                reason: None,
                message: None,
                ..instance.clone()
            };
            tx.instance_move(&instance, &after, now).await?;
            let data = json!({"name": instance.name, "witness_id": witness.id});
            effects.events.push((event, path(&after), data.clone()));
            effects.events.push((EventType::InstanceHealthy, path(&after), data));
            Ok(StepOutcome::witnessed(witness.id, json!(null)))
        })
    }))
}
