//! What every step on an allocation needs to know of it.

use muster_db::{Result, StoreError};
use muster_ids::{AllocationId, NodeId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::task::TaskKind;
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_wire::task::{Amount, Details};
use serde_json::{Value, json};

use crate::task::{Ask, Asked, ask};
use crate::{StepCx, Verdict};

/// The allocation that the operation works on.
pub(crate) async fn subject(cx: &StepCx<'_>) -> Result<Allocation> {
    let id = AllocationId::from_uuid(cx.operation.subject_id);
    cx.store.allocation_lookup(id).await?.ok_or(StoreError::Gone("allocation".to_owned()))
}

/// Its path.
pub(crate) fn path(allocation: &Allocation) -> String {
    format!("/v1/projects/{}/allocations/{}", allocation.project_id, allocation.id)
}

/// What its place has, or should have.
pub(crate) fn details(allocation: &Allocation, devices: Vec<String>) -> Details {
    Details {
        devices,
        amount: Amount {
            cpus: allocation.held.cpus,
            memory_mb: allocation.held.memory_mb,
            disk_mb: allocation.held.disk_mb,
        },
        exclusive: allocation.shape == muster_model::allocation::AllocationShape::Baremetal,
        project_id: Some(allocation.project_id),
        ..Details::default()
    }
}

/// The devices of the slots that it holds.
pub(crate) async fn devices(cx: &StepCx<'_>, allocation: &Allocation) -> Result<Vec<String>> {
    let mut claimed = cx.store.claims_of(allocation.id).await?;
    if claimed.is_empty() {
        // What is cleaned afterwards is claimed by nobody any more.
        claimed = cx.store.quarantined_for(allocation.id).await?;
    }
    let mut devices: Vec<String> = claimed.into_iter().map(|(_, device)| device).collect();
    devices.sort();
    Ok(devices)
}

/// Asks its node for something.
pub(crate) async fn ask_node(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    node: NodeId,
    kind: TaskKind,
    purpose: impl Into<std::borrow::Cow<'static, str>>,
) -> Result<Asked> {
    let details = details(allocation, devices(cx, allocation).await?);
    let (id, incarnation) = (Some(allocation.id), allocation.incarnation);
    ask(cx, &Ask { node, kind, purpose: purpose.into(), allocation: id, incarnation, details }).await
}

/// A step that rests on an operator's word instead of on what was done and seen.
pub(crate) fn on_word(word: &Witness) -> Verdict {
    Verdict::Done {
        output: json!({"attested": true}),
        message: Some("attested by an operator".to_owned()),
        witness: Some(word.id),
    }
}

/// An operator's word that nothing of this incarnation is left, where no evidence can be had. Whatever is made or cleaned up
/// afterwards is of a later incarnation, so the word does not stretch to it.
pub(crate) async fn attested(cx: &StepCx<'_>, allocation: &Allocation) -> Result<Option<Witness>> {
    let witnesses = cx.store.witness_list(allocation.id.uuid()).await?;
    let word = |witness: &Witness| {
        witness.kind == WitnessKind::Attested
            && witness.transition == Transition::Wiped
            && witness.incarnation == allocation.incarnation
    };
    Ok(witnesses.into_iter().rev().find(word))
}

/// Evidence that this step collected by a task.
pub(crate) fn evidence(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    transition: Transition,
    task: &muster_model::task::Task,
    checked: Value,
) -> Witness {
    Witness {
        id: cx.world.id(),
        subject_id: allocation.id.uuid(),
        transition,
        kind: WitnessKind::Witnessed,
        incarnation: allocation.incarnation,
        operation_id: Some(cx.operation.id),
        node_id: Some(task.node_id),
        task_id: Some(task.id),
        actor_id: None,
        checked,
        result: task.result.clone().unwrap_or_else(|| json!({})),
        at: cx.now,
    }
}
