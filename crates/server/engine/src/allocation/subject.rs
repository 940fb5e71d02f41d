//! Lookups shared by the steps on an allocation.

use muster_db::{Result, StoreError};
use muster_ids::{AllocationId, NodeId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::task::TaskKind;
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_wire::task::{Amount, Details};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::task::{Ask, Asked, ask};
use crate::{StepCx, StepOutcome};

/// Returns the allocation that the operation works on.
pub(crate) async fn subject(cx: &StepCx<'_>) -> Result<Allocation> {
    let id = AllocationId::from_uuid(cx.operation.subject_id);
    cx.store.allocation_lookup(id).await?.ok_or(StoreError::Gone("allocation".to_owned()))
}

/// Returns the API path of an allocation.
pub(crate) fn path(allocation: &Allocation) -> String {
    format!("/v1/projects/{}/allocations/{}", allocation.project_id, allocation.id)
}

/// Returns the task details of the sandbox: its current or desired resources.
pub(crate) fn details(allocation: &Allocation, devices: Vec<String>) -> Details {
    Details {
        devices,
        amount: Amount {
            cpus: allocation.held.cpus,
            memory_mb: allocation.held.memory_mb,
            disk_mb: allocation.held.disk_mb,
        },
        exclusive: allocation.shape == muster_model::allocation::AllocationShape::Baremetal,
        ..owned(allocation)
    }
}

/// Returns task details with nothing but the owner, by which the node shares out its slots.
pub(super) fn owned(allocation: &Allocation) -> Details {
    let (tenant_id, project_id) = (Some(allocation.tenant_id), Some(allocation.project_id));
    Details { tenant_id, project_id, ..Details::default() }
}

/// Returns the devices of its slots.
pub(crate) async fn devices(cx: &StepCx<'_>, allocation: &Allocation) -> Result<Vec<String>> {
    let mut claimed = cx.store.claims_of(allocation.id).await?;
    if claimed.is_empty() {
        // A cleanup runs after the claims have been released.
        claimed = cx.store.quarantined_for(allocation.id).await?;
    }
    let mut devices: Vec<String> = claimed.into_iter().map(|(_, device)| device).collect();
    devices.sort();
    Ok(devices)
}

/// Queues a task on its node, or returns its progress.
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

/// Output of a step that an attestation can complete: whether one did.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OnWord {
    pub(crate) attested: bool,
}

/// Completes a step by an operator's attestation instead of evidence.
pub(crate) fn on_word(word: &Witness) -> StepOutcome {
    StepOutcome::Done {
        output: json!(OnWord { attested: true }),
        message: Some("attested by an operator".to_owned()),
        witness: Some(word.id),
    }
}

/// Returns the operator's attestation that nothing of this incarnation is left, for when no evidence can be had. Later
/// provisioning or cleanup has a later incarnation, to which it does not apply.
pub(crate) async fn attested(cx: &StepCx<'_>, allocation: &Allocation) -> Result<Option<Witness>> {
    let witnesses = cx.store.witness_list(allocation.id.uuid()).await?;
    let word = |witness: &Witness| {
        witness.kind == WitnessKind::Attested
            && witness.transition == Transition::Wiped
            && witness.incarnation == allocation.incarnation
    };
    Ok(witnesses.into_iter().rev().find(word))
}

/// Builds the evidence that this step collected by a task.
pub(crate) fn evidence(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    transition: Transition,
    task: &muster_model::task::Task,
    checked: Value,
) -> Witness {
    Witness {
        id: cx.env.id(),
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
