//! Nodes, their capacity, allocations and operations.

use std::collections::BTreeMap;

use muster_db::{Enrolment, Hold, Joining, Store};
use muster_ids::{AllocationId, ClaimId, NodeId, OperationId, SlotId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::audit::Actor;
use muster_model::node::{Capacity, Slot, SlotState};
use muster_model::operation::{Operation, OperationKind, OperationState, StepRecord, StepState};
use muster_model::operation_input::{Inherited, InheritedEffect, OperationInput, RequestedCapacity};
use muster_model::placement::Fit;
use muster_model::task::{Task, TaskKind, TaskState};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_model::{Labels, Project, Tenant};
use serde_json::json;
use uuid::Uuid;

use super::{at, id, project, put, tenant, uuid};

/// The capacity of every node here, except GPUs.
pub(crate) const WHOLE: Capacity = Capacity { gpus: 0, cpus: 64, memory_mb: 1000, disk_mb: 2000 };

pub(crate) fn capacity(gpus: i64, cpus: i64, memory_mb: i64, disk_mb: i64) -> Capacity {
    Capacity { gpus, cpus, memory_mb, disk_mb }
}

pub(crate) fn joining(name: &str) -> Joining {
    Joining {
        id: id(),
        name: name.to_owned(),
        labels: Labels::new(),
        inventory: json!({"hostname": name}),
        inventory_digest: format!("digest of {name}"),
        agent_version: "0.1.0".to_owned(),
        certificate_until: at(86_400),
        at: at(0),
    }
}

/// Builds a GPU slot of a node: two per island, four per NUMA node.
pub(crate) fn slot(node: NodeId, ordinal: i64) -> Slot {
    Slot {
        id: id(),
        node_id: node,
        kind: "gpu".to_owned(),
        device: format!("GPU-{ordinal}"),
        ordinal,
        model: "H200".to_owned(),
        memory_mb: 143_771,
        numa: ordinal / 4,
        island: ordinal / 2,
        state: SlotState::Approved,
        reason: None,
        allocation_id: None,
        version: 1,
    }
}

/// Creates a node that accepts allocations, with this many GPUs.
pub(crate) async fn machine(store: &Store, name: &str, gpus: i64) -> (NodeId, Vec<Slot>) {
    let joining = joining(name);
    let slots: Vec<Slot> = (0..gpus).map(|ordinal| slot(joining.id, ordinal)).collect();
    put(store, async |tx| {
        tx.node_join(&joining).await?;
        for slot in &slots {
            tx.slot_upsert(slot, at(1)).await?;
        }
        tx.node_approve(joining.id, WHOLE, &joining.inventory_digest, 1, at(2)).await?;
        tx.heartbeat_note(&[joining.id], at(2)).await?;
        tx.node_recount(joining.id).await
    })
    .await
    .unwrap();
    (joining.id, slots)
}

/// Creates a tenant with a project.
pub(crate) async fn place(store: &Store) -> (Tenant, Project) {
    let tenant = tenant("acme");
    let project = project(&tenant, "train");
    put(store, async |tx| {
        tx.tenant_insert(&tenant).await?;
        tx.project_insert(&project).await
    })
    .await
    .unwrap();
    (tenant, project)
}

pub(crate) fn allocation(project: &Project, name: &str) -> Allocation {
    Allocation::requested(id(), project.tenant_id, project.id, name, capacity(1, 2, 4, 8), at(0))
}

/// Creates a requested allocation.
pub(crate) async fn requested(store: &Store, project: &Project, name: &str) -> Allocation {
    let allocation = allocation(project, name);
    put(store, async |tx| tx.allocation_request(&allocation).await).await.unwrap();
    allocation
}

/// Moves an allocation to its next state.
pub(crate) async fn moved(store: &Store, before: &Allocation, after: Allocation) -> Allocation {
    put(store, async |tx| tx.allocation_move(before, &after, at(9)).await).await.unwrap();
    store.allocation_lookup(before.id).await.unwrap().unwrap()
}

pub(crate) fn hold(node: NodeId, allocation: AllocationId, slots: &[SlotId]) -> Hold {
    Hold {
        node,
        allocation,
        slots: slots.to_vec(),
        amount: capacity(i64::try_from(slots.len()).unwrap(), 2, 4, 8),
        holders: 1,
        exclusive: false,
        fit: Fit::of(&[], false),
        at: at(5),
    }
}

/// Returns ids for the claims of a hold.
pub(crate) fn claims(hold: &Hold) -> Vec<ClaimId> {
    hold.slots.iter().map(|_| id()).collect()
}

/// Makes an allocation hold slots of a node, as the engine would.
pub(crate) async fn held(store: &Store, node: NodeId, allocation: AllocationId, slots: &[SlotId]) {
    let hold = hold(node, allocation, slots);
    put(store, async |tx| {
        tx.node_lock(node).await?;
        tx.hold(&hold, &claims(&hold)).await?;
        tx.node_recount(node).await
    })
    .await
    .unwrap();
}

/// Releases them.
pub(crate) async fn released(store: &Store, node: NodeId, allocation: AllocationId, gpus: i64) {
    put(store, async |tx| {
        tx.node_lock(node).await?;
        tx.unhold(node, allocation, &capacity(gpus, 2, 4, 8), at(6)).await?;
        tx.node_recount(node).await
    })
    .await
    .unwrap();
}

/// An input that uses every type of its fields.
fn input() -> OperationInput {
    let capacity = Capacity { gpus: 1, cpus: 2, memory_mb: 3, disk_mb: 4 };
    let inherited = Inherited {
        operation: id(),
        kind: OperationKind::MemberReplace,
        effects: vec![InheritedEffect {
            step: "claim".to_owned(),
            state: StepState::Done,
            output: json!({"slots": [1]}),
        }],
    };
    OperationInput {
        app_version_id: Some(id()),
        config: Some(json!({"partitions": ["a"]})),
        capacity: Some(RequestedCapacity::ByComponent(BTreeMap::from([("worker".to_owned(), capacity)]))),
        remove: vec![id()],
        successors: BTreeMap::from([(id(), id())]),
        inherited: Some(inherited),
        spawn_key: Some("run_all/member.add m/0".to_owned()),
        retry_epoch: 3,
        ..OperationInput::because("a test")
    }
}

pub(crate) fn operation(subject: Uuid, exclusive_locks: &[Uuid]) -> Operation {
    Operation {
        id: id(),
        kind: OperationKind::AllocationCreate,
        tenant_id: None,
        project_id: None,
        subject_kind: "allocation".to_owned(),
        subject_id: subject,
        subject_name: "a".to_owned(),
        timeline: muster_model::event::Timeline::default(),
        asked_by: Actor { kind: "user".to_owned(), id: "usr_1".to_owned(), name: "Ada".to_owned() },
        correlation_id: "c-1".to_owned(),
        state: OperationState::Accepted,
        input: input(),
        exclusive_locks: exclusive_locks.to_vec(),
        shared_locks: Vec::new(),
        steps: vec![StepRecord::pending("claim"), StepRecord::pending("prepare")],
        items: Vec::new(),
        waiting: None,
        blocked: None,
        reason: None,
        message: None,
        cancel_requested: false,
        supersedes: None,
        parent_id: None,
        due_at: at(0),
        deadline_at: at(600),
        generation: 0,
        wakes: 0,
        created_at: at(0),
        updated_at: at(0),
        finished_at: None,
        version: 1,
    }
}

/// Stores an operation.
pub(crate) async fn opened(store: &Store, operation: Operation) -> Operation {
    put(store, async |tx| tx.operation_open(&operation).await).await.unwrap();
    operation
}

pub(crate) fn task(node: NodeId, operation: OperationId, key: &str) -> Task {
    Task {
        id: id(),
        node_id: node,
        operation_id: operation,
        key: key.to_owned(),
        kind: TaskKind::Prepare,
        allocation_id: Some(id()),
        incarnation: 2,
        generation: 3,
        payload: json!({"devices": ["GPU-0"]}),
        state: TaskState::Queued,
        result: None,
        message: None,
        correlation_id: "c-1".to_owned(),
        queued_at: at(0),
        delivered_at: None,
        finished_at: None,
        expires_at: at(300),
    }
}

pub(crate) fn witness(subject: Uuid, transition: Transition) -> Witness {
    Witness {
        id: id(),
        subject_id: subject,
        transition,
        kind: WitnessKind::Witnessed,
        incarnation: 1,
        operation_id: Some(id()),
        node_id: Some(id()),
        task_id: Some(id()),
        actor_id: None,
        checked: json!({"devices": ["GPU-0"]}),
        result: json!({"present": true}),
        at: at(3),
    }
}

/// Stores evidence about a subject.
pub(crate) async fn witnessed(store: &Store, subject: Uuid, transition: Transition) -> Witness {
    let witness = witness(subject, transition);
    put(store, async |tx| tx.witness_insert(&witness).await).await.unwrap();
    witness
}

/// Retires a node.
pub(crate) async fn retired(store: &Store, node: NodeId) {
    let witness = witnessed(store, node.uuid(), Transition::Retired).await;
    put(store, async |tx| tx.node_retire(node, witness.id, at(8)).await).await.unwrap();
}

pub(crate) fn enrolment(name: Option<&str>) -> Enrolment {
    Enrolment {
        id: id(),
        node_name: name.map(str::to_owned),
        labels: Labels::new(),
        node_id: None,
        used_with: None,
    }
}

/// Returns 32 unique bytes.
pub(crate) fn key() -> [u8; 32] {
    let mut key = [3; 32];
    key[..16].copy_from_slice(uuid().as_bytes());
    key
}
