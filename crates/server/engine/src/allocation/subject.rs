//! Lookups shared by the steps on an allocation.

use muster_db::{Result, StoreError};
use muster_ids::{AllocationId, NodeId, TypedId as _};
use muster_model::allocation::{Allocation, AllocationShape};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_wire::act::{Act, Inspect, OwnedAllocation, Prepare, SandboxDevices, SandboxResources};
use muster_wire::task::Amount;
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

/// Returns the allocation as tasks name it, with its owner.
pub fn owned_allocation(allocation: &Allocation) -> OwnedAllocation {
    OwnedAllocation {
        allocation_id: allocation.id,
        tenant_id: allocation.tenant_id,
        project_id: allocation.project_id,
    }
}

/// Reports whether the allocation has its node to itself.
pub(crate) fn is_exclusive(allocation: &Allocation) -> bool {
    allocation.shape == AllocationShape::Baremetal
}

/// Returns the resources of the sandbox: its current or desired ones.
pub(super) fn resources(allocation: &Allocation, devices: Vec<String>) -> SandboxResources {
    let held = &allocation.held;
    let amount = Amount { cpus: held.cpus, memory_mb: held.memory_mb, disk_mb: held.disk_mb };
    SandboxResources { devices, amount }
}

/// Builds the act that provisions the sandbox.
pub(super) fn prepare_act(allocation: &Allocation, devices: Vec<String>) -> Act {
    let resources = resources(allocation, devices);
    Act::Prepare(Prepare {
        allocation: owned_allocation(allocation),
        resources,
        exclusive: is_exclusive(allocation),
    })
}

/// Builds the act that inspects the sandbox.
pub(super) fn inspect_act(allocation: &Allocation, devices: Vec<String>) -> Act {
    Act::Inspect(Inspect { allocation: owned_allocation(allocation), devices, cells: Vec::new() })
}

/// Builds the act that destroys the sandbox.
pub(super) fn destroy_act(allocation: &Allocation, devices: Vec<String>) -> Act {
    Act::Destroy(SandboxDevices { allocation: owned_allocation(allocation), devices })
}

/// Builds the act that wipes what the sandbox had.
pub(super) fn wipe_act(allocation: &Allocation, devices: Vec<String>) -> Act {
    Act::Wipe(SandboxDevices { allocation: owned_allocation(allocation), devices })
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

/// Queues a task with the devices of its slots on its node, or returns its progress.
pub(crate) async fn ask_node(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    node: NodeId,
    act: fn(&Allocation, Vec<String>) -> Act,
    purpose: &'static str,
) -> Result<Asked> {
    let act = act(allocation, devices(cx, allocation).await?);
    ask_act(cx, allocation, node, act, purpose).await
}

/// Queues a task on its node, or returns its progress.
pub(super) async fn ask_act(
    cx: &StepCx<'_>,
    allocation: &Allocation,
    node: NodeId,
    act: Act,
    purpose: &'static str,
) -> Result<Asked> {
    ask(cx, &Ask { node, purpose: purpose.into(), incarnation: allocation.incarnation, act }).await
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
