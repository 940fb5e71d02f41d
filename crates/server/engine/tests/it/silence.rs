//! Nodes with a late heartbeat, long before they are declared lost.

use jiff::SignedDuration;
use muster_ids::{NodeId, OperationId};
use muster_model::allocation::{AllocationShape, AllocationState, FailureReason};
use muster_model::node::{Capacity, NodeState};
use muster_model::operation::OperationState;
use muster_testkit::Database;

use crate::laws;
use crate::rig::{Rig, TIMING};

stories! {
    a_silent_node_is_passed_over_while_it_is_still_ready
    a_request_that_only_a_silent_node_could_take_waits_and_says_so
    a_request_that_only_a_lost_node_could_take_fails
    a_claim_moves_from_a_node_that_fell_silent_before_it_got_the_task
    a_claim_stays_on_a_node_that_got_the_task
    a_claim_on_a_lost_node_that_got_nothing_is_given_up_without_it
    capacity_failure_names_the_lacking_resource
}

/// Makes the node's last heartbeat older than placement accepts.
async fn silence(rig: &Rig, node: NodeId) {
    let long_ago = rig.env.now() - TIMING.silent - SignedDuration::from_secs(55);
    rig.store.heartbeat_write(&[node], &[], long_ago).await.unwrap();
    assert_eq!(rig.store.node_lookup(node).await.unwrap().unwrap().state, NodeState::Ready);
}

/// Makes its heartbeats recent from now on.
async fn is_heard(rig: &Rig, node: NodeId) {
    let from_now_on = rig.env.now() + SignedDuration::from_hours(1);
    rig.store.heartbeat_write(&[node], &[], from_now_on).await.unwrap();
}

async fn lose(rig: &Rig, node: NodeId) {
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_lost(node, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
}

async fn waiting(rig: &Rig, operation: OperationId) -> String {
    rig.operation(operation).await.waiting.unwrap_or_default()
}

async fn free_gpus(rig: &Rig, node: NodeId) -> i64 {
    rig.store.node_lookup(node).await.unwrap().unwrap().free.gpus
}

async fn a_silent_node_is_passed_over_while_it_is_still_ready(rig: &mut Rig) {
    let far = rig.add_far(8, 32).await;
    assert!(rig.node.id < far, "the silent one is the first by its id");
    silence(rig, rig.node.id).await;
    let id = rig.active("a", 2).await;
    assert_eq!(rig.allocation(id).await.node_id, Some(far));
    is_heard(rig, rig.node.id).await;
    let id = rig.active("b", 8).await;
    assert_eq!(rig.allocation(id).await.node_id, Some(rig.node.id), "nothing is held against it afterwards");
}

async fn a_request_that_only_a_silent_node_could_take_waits_and_says_so(rig: &mut Rig) {
    silence(rig, rig.node.id).await;
    let (id, operation) = rig.create("a", 2, None).await;
    rig.pass(TIMING.look * 3).await;
    let reason = waiting(rig, operation).await;
    assert!(reason.starts_with("1 node has enough free, but its last heartbeat was 6"), "{reason}");
    assert_eq!(rig.allocation(id).await.state, AllocationState::Requested, "nothing is held");
    is_heard(rig, rig.node.id).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Succeeded);
}

async fn a_request_that_only_a_lost_node_could_take_fails(rig: &mut Rig) {
    silence(rig, rig.node.id).await;
    let (id, operation) = rig.create("a", 2, None).await;
    rig.pass(TIMING.look * 2).await;
    lose(rig, rig.node.id).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
    let allocation = rig.allocation(id).await;
    assert_eq!(allocation.reason, Some(FailureReason::NoCapacity));
    assert_eq!(allocation.message.as_deref(), Some("no node takes allocations now"));
}

async fn a_claim_moves_from_a_node_that_fell_silent_before_it_got_the_task(rig: &mut Rig) {
    let far = rig.add_far(8, 32).await;
    let near = rig.node.id;
    rig.node.reachable = false;
    let (id, operation) = rig.create("a", 2, None).await;
    rig.pass(TIMING.look).await;
    let claimed = rig.allocation(id).await;
    assert_eq!((claimed.node_id, claimed.incarnation), (Some(near), 1));
    silence(rig, near).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Succeeded);
    let allocation = rig.allocation(id).await;
    assert_eq!((allocation.node_id, allocation.incarnation), (Some(far), 2));
    assert_eq!((allocation.held, allocation.capacity), (claimed.held, claimed.held));
    assert_eq!((free_gpus(rig, near).await, free_gpus(rig, far).await), (8, 6));
    // The first one returns: it finds no work.
    rig.node.reachable = true;
    is_heard(rig, near).await;
    rig.pass(TIMING.task * 2).await;
    assert!(rig.node.done.is_empty(), "{:?}", rig.node.done);
}

async fn a_claim_stays_on_a_node_that_got_the_task(rig: &mut Rig) {
    rig.add_far(8, 32).await;
    let near = rig.node.id;
    rig.node.reachable = false;
    let (id, operation) = rig.create("a", 2, None).await;
    rig.pass(TIMING.look).await;
    // The agent gets the task and falls silent: it may have started.
    let delivered = rig.store.task_deliver(near, 1, rig.env.now(), 16).await.unwrap();
    assert_eq!(delivered.len(), 1);
    silence(rig, near).await;
    rig.pass(TIMING.task * 2).await;
    let reason = waiting(rig, operation).await;
    let node = rig.store.node_lookup(near).await.unwrap().unwrap().name;
    assert!(reason.starts_with(&format!("node {node}: last heartbeat ")), "{reason}");
    assert_eq!(rig.allocation(id).await.node_id, Some(near), "two claims would both be alive");
    assert!(rig.far.as_ref().unwrap().done.is_empty());
    rig.node.reachable = true;
    is_heard(rig, near).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Succeeded);
    assert_eq!(rig.allocation(id).await.node_id, Some(near));
}

async fn a_claim_on_a_lost_node_that_got_nothing_is_given_up_without_it(rig: &mut Rig) {
    let near = rig.node.id;
    rig.node.reachable = false;
    let whole = Capacity { gpus: 8, cpus: 2, memory_mb: 1024, disk_mb: 1024 };
    for shape in [AllocationShape::GpuSlice, AllocationShape::Baremetal] {
        let (id, operation) = rig.create_as("a", whole, shape, None).await;
        rig.pass(TIMING.look).await;
        silence(rig, near).await;
        rig.pass(TIMING.look * 2).await;
        let reason = waiting(rig, operation).await;
        assert!(reason.contains("last heartbeat "), "{reason}");
        lose(rig, near).await;
        let ended = rig.drive(operation).await;
        assert_eq!(
            (ended.state, ended.reason.as_deref()),
            (OperationState::Failed, Some("node_unreachable"))
        );
        assert!(
            ended.message.as_deref().unwrap_or_default().contains("unreachable, last heartbeat"),
            "{ended:?}"
        );
        assert_eq!(rig.allocation(id).await.state, AllocationState::Failed);
        assert_eq!(free_gpus(rig, near).await, 8, "nothing of it is held, and nothing waits for the node");
        let mut tx = rig.store.begin().await.unwrap();
        assert!(tx.node_back(near, rig.env.now()).await.unwrap());
        tx.commit().await.unwrap();
        is_heard(rig, near).await;
    }
}

async fn capacity_failure_names_the_lacking_resource(rig: &mut Rig) {
    let message = async |rig: &mut Rig, capacity| {
        let (id, operation) = rig.create_as("a", capacity, AllocationShape::GpuSlice, None).await;
        assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
        rig.allocation(id).await.message.unwrap_or_default()
    };
    let need = |gpus, cpus| Capacity { gpus, cpus, memory_mb: 1024, disk_mb: 1024 };
    assert_eq!(message(rig, need(9, 2)).await, "needs 9 GPUs; most free on one node: 8");
    rig.create_as("h", need(0, 32), AllocationShape::GpuSlice, None).await;
    rig.pass(TIMING.look).await;
    assert_eq!(message(rig, need(1, 1)).await, "needs 1 CPU; most free on one node: 0");
}
