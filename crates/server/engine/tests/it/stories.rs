//! Operations from start to end, from the users' point of view.

use jiff::SignedDuration;
use muster_engine::allocation::{CLEAN, RELEASE, RESIZE, RESTART};
use muster_engine::node::{DRAIN, RETIRE};
use muster_engine::{definition, resolve, supersede};
use muster_model::allocation::{AllocationShape, AllocationState, FailureReason};
use muster_model::node::{Capacity, SlotState};
use muster_model::operation::{ItemState, OperationState, ResolveAction, StepState};
use muster_model::operation_input::OperationInput;
use muster_model::task::TaskKind;
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::node::Wrong;
use crate::rig::{Rig, TIMING};

stories! {
    an_allocation_goes_from_requested_to_released
    request_without_capacity_fails_with_a_reason_and_leaves_nothing
    a_place_that_is_not_what_was_asked_for_is_undone
    a_node_that_fails_is_undone
    a_task_that_fails_once_is_asked_for_again
    a_certain_refusal_is_not_asked_for_again
    a_release_waits_until_the_node_s_disk_has_room
    an_allocation_is_not_made_on_a_full_disk
    a_node_that_does_nothing_is_undone_at_the_deadline_with_a_reason
    cancelling_undoes_what_was_done
    a_release_takes_over_from_a_create
    a_release_takes_over_from_a_resize_at_every_step
    a_drain_that_is_accepted_in_part_leaves_the_node_cordoned
    an_unverified_wipe_is_blocked_and_can_be_retried
    an_unverified_wipe_can_be_attested_and_stays_quarantined
    permanently_failing_task_blocks_its_operation_and_a_retry_requests_it_again
    a_dead_node_is_attested_and_cleaned_when_it_is_back
    a_restart_raises_the_incarnation
    a_resize_grows_and_shrinks
    a_resize_without_room_changes_nothing
    a_whole_node_is_taken_alone
    operations_on_one_thing_run_in_order
    an_operation_behind_a_blocked_one_fails_at_its_deadline
    a_drain_waits_for_the_tenants
    a_drain_forces_at_its_deadline
    a_drain_without_force_is_blocked_at_its_deadline
    an_empty_node_is_retired_with_evidence
    finished_work_leaves_the_hot_tables
    unanswered_task_is_requested_again
    operation_blocked_too_long_is_escalated
}

async fn an_allocation_goes_from_requested_to_released(rig: &mut Rig) {
    let id = rig.active("a", 3).await;
    let allocation = rig.allocation(id).await;
    assert_eq!(allocation.held.gpus, 3);
    let witness = rig.store.witness_lookup(allocation.active_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((witness.kind, witness.transition), (WitnessKind::Witnessed, Transition::Active));
    assert!(witness.task_id.is_some());
    laws::hold(rig).await;
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    let ended = rig.drive(release).await;
    assert_eq!(ended.state, OperationState::Succeeded);
    assert!(ended.steps.iter().all(|step| step.state == StepState::Done));
    let allocation = rig.allocation(id).await;
    assert_eq!(allocation.state, AllocationState::Released);
    let phases: Vec<_> = rig.store.phase_list(id).await.unwrap().iter().map(|phase| phase.state).collect();
    use AllocationState::{Active, Placing, Provisioning, Released, Releasing, Requested, Wiping};
    assert_eq!(phases, [Requested, Placing, Provisioning, Active, Releasing, Wiping, Released]);
    assert!(rig.node.sandboxes.is_empty() && rig.node.dirty.is_empty());
}

async fn request_without_capacity_fails_with_a_reason_and_leaves_nothing(rig: &mut Rig) {
    let (id, operation) = rig.create("a", 9, None).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
    let allocation = rig.allocation(id).await;
    assert_eq!(
        (allocation.state, allocation.reason),
        (AllocationState::Failed, Some(FailureReason::NoCapacity))
    );
}

async fn a_place_that_is_not_what_was_asked_for_is_undone(rig: &mut Rig) {
    rig.node.wrong.push(Wrong::MakesTooLittle);
    let (id, operation) = rig.create("a", 2, None).await;
    let ended = rig.drive(operation).await;
    assert_eq!((ended.state, rig.node.struck), (OperationState::Failed, 1));
    assert_eq!(rig.allocation(id).await.reason, Some(FailureReason::VerifyFailed));
    assert!(rig.node.sandboxes.is_empty() && rig.node.dirty.is_empty());
}

async fn a_node_that_fails_is_undone(rig: &mut Rig) {
    rig.node.wrong.extend([Wrong::Fails(TaskKind::Prepare); 3]);
    let (id, operation) = rig.create("a", 2, None).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
    assert_eq!(rig.allocation(id).await.reason, Some(FailureReason::PrepareFailed));
}

async fn a_node_that_does_nothing_is_undone_at_the_deadline_with_a_reason(rig: &mut Rig) {
    for (lost, reason) in [(false, FailureReason::PrepareTimeout), (true, FailureReason::NodeUnreachable)] {
        rig.node.reachable = false;
        let (id, operation) = rig.create("a", 1, None).await;
        rig.engine.round().await.unwrap();
        // Its agent gets the task and falls silent: it may have started.
        let given = rig.store.task_deliver(rig.node.id, 1, rig.env.now(), 16).await.unwrap();
        assert_eq!(given.len(), 1);
        rig.clock.advance(TIMING.create + SignedDuration::from_secs(1));
        if lost {
            let mut tx = rig.store.begin().await.unwrap();
            assert!(tx.node_lost(rig.node.id, rig.env.now()).await.unwrap());
            tx.commit().await.unwrap();
        }
        rig.engine.round().await.unwrap();
        assert_eq!(rig.operation(operation).await.state, OperationState::Compensating);
        rig.node.reachable = !lost;
        if lost {
            assert_eq!(rig.drive(operation).await.state, OperationState::Blocked);
            attest(rig, id).await;
            decide(rig, operation, ResolveAction::Retry).await;
        }
        assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
        let allocation = rig.allocation(id).await;
        assert_eq!((allocation.state, allocation.reason), (AllocationState::Failed, Some(reason)));
    }
}

async fn a_task_that_fails_once_is_asked_for_again(rig: &mut Rig) {
    rig.node.wrong.push(Wrong::Fails(TaskKind::Prepare));
    let id = rig.active("a", 2).await;
    for kind in [TaskKind::Destroy, TaskKind::Wipe, TaskKind::Inspect] {
        rig.node.wrong.push(Wrong::Fails(kind));
    }
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
    assert_eq!(rig.node.struck, 4);
}

async fn a_release_waits_until_the_node_s_disk_has_room(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    for kind in [TaskKind::Destroy, TaskKind::Wipe] {
        rig.node.wrong.extend([Wrong::Full(kind); 10]);
    }
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    rig.engine.round().await.unwrap();
    rig.node.serve(&rig.store, rig.env.now()).await;
    rig.engine.round().await.unwrap();
    let waits = rig.operation(release).await.waiting.unwrap();
    assert!(waits.contains("the node's disk is full") && waits.contains("retrying"), "{waits}");
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
    assert_eq!(rig.node.struck, 20);
}

async fn an_allocation_is_not_made_on_a_full_disk(rig: &mut Rig) {
    rig.node.wrong.extend([Wrong::Full(TaskKind::Prepare); 3]);
    let (id, operation) = rig.create("a", 2, None).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
    let allocation = rig.allocation(id).await;
    assert_eq!(allocation.reason, Some(FailureReason::PrepareFailed));
    assert_eq!(allocation.message.as_deref(), Some("the node's disk is full"));
}

async fn a_certain_refusal_is_not_asked_for_again(rig: &mut Rig) {
    rig.node.wrong.push(Wrong::Refuses(TaskKind::Prepare));
    let (id, operation) = rig.create("a", 2, None).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Failed);
    assert_eq!(rig.allocation(id).await.message.as_deref(), Some("it can never do that"));
    assert_eq!(rig.node.struck, 1);
    assert!(rig.node.sandboxes.is_empty());
}

async fn cancelling_undoes_what_was_done(rig: &mut Rig) {
    let (id, operation) = rig.create("a", 2, None).await;
    rig.engine.round().await.unwrap();
    rig.node.serve(&rig.store, rig.env.now()).await;
    assert_eq!(rig.node.sandboxes.len(), 1, "its place was made");
    let mut tx = rig.store.begin().await.unwrap();
    tx.operation_cancel(operation, rig.env.now()).await.unwrap();
    tx.commit().await.unwrap();
    let ended = rig.drive(operation).await;
    assert_eq!(ended.state, OperationState::Cancelled);
    assert_eq!(rig.allocation(id).await.reason, Some(FailureReason::Cancelled));
    assert!(rig.node.sandboxes.is_empty());
}

/// Supersedes any open operation on the allocation with its release.
async fn release_now(rig: &Rig, id: muster_ids::AllocationId) -> muster_ids::OperationId {
    use muster_ids::TypedId as _;
    let old = rig.store.operation_open_on(id.uuid()).await.unwrap();
    let allocation = rig.allocation(id).await;
    let now = rig.env.now();
    let mut parent = old[0].clone();
    parent.parent_id = None;
    let mut tx = rig.store.begin().await.unwrap();
    let mut release = muster_engine::accept(
        &RELEASE,
        muster_engine::OperationRequest {
            id: rig.env.id(),
            scope: allocation.scope(),
            subject_kind: "allocation",
            subject_id: id.uuid(),
            subject_name: allocation.name.clone(),
            exclusive_locks: vec![id.uuid()],
            shared_locks: Vec::new(),
            timeline: muster_model::event::Timeline::default(),
            asked_by: rig.asked(),
            correlation_id: "c".to_owned(),
            input: OperationInput::default(),
            deadline_at: now + TIMING.release,
            parent_id: None,
            now,
        },
    );
    for old in &old {
        assert!(supersede(&mut tx, &rig.env, old, &mut release, now).await.unwrap());
    }
    tx.operation_open(&release).await.unwrap();
    tx.commit().await.unwrap();
    release.id
}

async fn a_release_takes_over_from_a_create(rig: &mut Rig) {
    let (id, create) = rig.create("a", 2, None).await;
    // Leased by an engine that is in the middle of it.
    let leased = rig.store.operation_lease("slow", TIMING.lease, rig.env.now(), 8).await.unwrap();
    rig.engine.work(leased[0].clone()).await;
    rig.node.serve(&rig.store, rig.env.now()).await;
    let stale = rig.operation(create).await;
    let release = release_now(rig, id).await;
    let old = rig.operation(create).await;
    assert_eq!(old.state, OperationState::Superseded);
    let new = rig.operation(release).await;
    assert_eq!(new.supersedes, Some(create));
    assert_eq!(new.input.inherited.unwrap().effects[0].step, "claim", "its journal is inherited");
    // The engine working on the old one is fenced.
    assert_eq!(rig.engine.work(stale).await, muster_engine::Tick::Fenced);
    assert_eq!(rig.engine.fenced(), 1);
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
    assert_eq!(rig.allocation(id).await.state, AllocationState::Released);
    assert!(rig.node.sandboxes.is_empty() && rig.node.dirty.is_empty());
}

async fn a_release_takes_over_from_a_resize_at_every_step(rig: &mut Rig) {
    // More of one resource, less of another; superseded after each pass of the engine.
    for looks in 0..12 {
        let id = rig.active("a", 2).await;
        let target = Capacity { gpus: 4, cpus: 1, memory_mb: 4096, disk_mb: 512 };
        let resize = rig.ask(&RESIZE, "allocation", id, json!({"capacity": target})).await;
        for _ in 0..looks {
            rig.engine.round().await.unwrap();
            rig.node.serve(&rig.store, rig.env.now()).await;
        }
        let release = match rig.operation(resize).await.state.is_final() {
            true => rig.ask(&RELEASE, "allocation", id, json!({})).await,
            false => release_now(rig, id).await,
        };
        assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
        assert!(rig.node.sandboxes.is_empty() && rig.node.dirty.is_empty(), "after {looks} looks");
        laws::hold(rig).await;
        let quota = rig.store.quota_lookup(rig.project.id).await.unwrap();
        assert_eq!((quota.used_allocations, quota.used), (0, Capacity::default()), "after {looks} looks");
    }
}

async fn a_drain_that_is_accepted_in_part_leaves_the_node_cordoned(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({})).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Blocked);
    decide(rig, drain, ResolveAction::AcceptPartial).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Partial);
    let node = rig.store.node_lookup(rig.node.id).await.unwrap().unwrap();
    assert!(node.cordoned && !node.draining);
    assert_eq!(rig.allocation(id).await.state, AllocationState::Active);
}

pub(crate) async fn retry(rig: &Rig, id: muster_ids::OperationId) {
    decide(rig, id, ResolveAction::Retry).await;
}

pub(crate) async fn decide(rig: &Rig, id: muster_ids::OperationId, action: ResolveAction) {
    let now = rig.env.now();
    let mut tx = rig.store.begin().await.unwrap();
    let mut fresh = tx.operation_seize(id).await.unwrap().unwrap();
    let kind = definition(fresh.kind).unwrap();
    resolve(&mut fresh, kind, &TIMING, action, now).expect("it is one of the choices");
    tx.operation_advance(&fresh, now, None).await.unwrap();
    tx.commit().await.unwrap();
}

async fn an_unverified_wipe_is_blocked_and_can_be_retried(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    rig.node.wrong.push(Wrong::LeavesResidue);
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    let blocked = rig.drive(release).await;
    assert_eq!(blocked.state, OperationState::Blocked);
    let why = blocked.blocked.unwrap();
    assert!(why.reason.contains("not wiped"), "{}", why.reason);
    assert_eq!(why.resolvable_by, "operator");
    assert_eq!(
        rig.slots().await.iter().filter(|slot| slot.2 == Some(id)).count(),
        2,
        "nobody else gets the slots"
    );
    decide(rig, release, ResolveAction::Retry).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded, "it was wiped once more, and seen");
    assert!(rig.node.dirty.is_empty());
}

async fn an_unverified_wipe_can_be_attested_and_stays_quarantined(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    rig.node.wrong.push(Wrong::LeavesResidue);
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Blocked);
    let witness = attest(rig, id).await;
    decide(rig, release, ResolveAction::Abandon).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
    let allocation = rig.allocation(id).await;
    assert_eq!((allocation.state, allocation.wiped_witness_id), (AllocationState::Released, Some(witness)));
    let quarantined = rig.slots().await.iter().filter(|slot| slot.1 == SlotState::Quarantined).count();
    assert_eq!(quarantined, 2);
}

async fn permanently_failing_task_blocks_its_operation_and_a_retry_requests_it_again(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    rig.node.wrong.extend([Wrong::Fails(TaskKind::Destroy); 3]);
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Blocked);
    decide(rig, release, ResolveAction::Retry).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
}

pub(crate) async fn attest(rig: &Rig, id: muster_ids::AllocationId) -> muster_ids::WitnessId {
    use muster_ids::TypedId as _;
    let allocation = rig.allocation(id).await;
    let witness = Witness {
        id: rig.env.id(),
        subject_id: id.uuid(),
        transition: Transition::Wiped,
        kind: WitnessKind::Attested,
        incarnation: allocation.incarnation,
        operation_id: None,
        node_id: allocation.node_id,
        task_id: None,
        actor_id: Some("usr_operator".to_owned()),
        checked: json!([]),
        result: json!({"statement": "its disks were shredded"}),
        at: rig.env.now(),
    };
    let mut tx = rig.store.begin().await.unwrap();
    tx.witness_insert(&witness).await.unwrap();
    tx.commit().await.unwrap();
    witness.id
}

async fn a_dead_node_is_attested_and_cleaned_when_it_is_back(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    let incarnation = rig.allocation(id).await.incarnation;
    rig.node.reachable = false;
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_lost(rig.node.id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    let blocked = rig.drive(release).await;
    assert_eq!(blocked.state, OperationState::Blocked, "it is not released on nobody's word");
    assert!(blocked.blocked.unwrap().reason.contains("unreachable"));
    attest(rig, id).await;
    decide(rig, release, ResolveAction::Retry).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
    let allocation = rig.allocation(id).await;
    assert_eq!(allocation.state, AllocationState::Released);
    assert!(allocation.incarnation > incarnation, "whatever comes back is fenced");
    assert_eq!(rig.slots().await.iter().filter(|slot| slot.1 == SlotState::Quarantined).count(), 2);
    // It returns with a stale copy. The agent destroys that first; then its slots are cleaned with evidence.
    rig.node.reachable = true;
    rig.node.sandboxes.clear();
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_back(rig.node.id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    let clean = rig.ask(&CLEAN, "allocation", id, json!({})).await;
    assert_eq!(rig.drive(clean).await.state, OperationState::Succeeded);
    assert!(rig.slots().await.iter().all(|slot| slot.1 == SlotState::Approved));
    assert!(rig.node.dirty.is_empty());
}

async fn a_restart_raises_the_incarnation(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    let before = rig.allocation(id).await;
    let restart = rig.ask(&RESTART, "allocation", id, json!({})).await;
    assert_eq!(rig.drive(restart).await.state, OperationState::Succeeded);
    let after = rig.allocation(id).await;
    assert_eq!((after.state, after.incarnation), (AllocationState::Active, before.incarnation + 1));
    assert_ne!(after.active_witness_id, before.active_witness_id, "new evidence for the new place");
    assert_eq!(rig.node.sandboxes[&id].incarnation, after.incarnation);
}

async fn a_resize_grows_and_shrinks(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    for gpus in [5, 1] {
        let target = Capacity { gpus, cpus: 2 * gpus, memory_mb: 4096, disk_mb: 2048 };
        let resize = rig.ask(&RESIZE, "allocation", id, json!({"capacity": target})).await;
        let ended = rig.drive(resize).await;
        assert_eq!(ended.state, OperationState::Succeeded, "{ended:#?}");
        let allocation = rig.allocation(id).await;
        assert_eq!((allocation.held, allocation.capacity), (target, target));
        assert_eq!(rig.node.sandboxes[&id].devices.len(), usize::try_from(gpus).unwrap());
        laws::hold(rig).await;
    }
}

async fn a_resize_without_room_changes_nothing(rig: &mut Rig) {
    let id = rig.active("a", 2).await;
    let _other = rig.active("b", 5).await;
    let before = rig.allocation(id).await;
    for target in [Capacity { gpus: 4, ..before.capacity }, Capacity { cpus: 1000, ..before.capacity }] {
        let resize = rig.ask(&RESIZE, "allocation", id, json!({"capacity": target})).await;
        let ended = rig.drive(resize).await;
        assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("no_capacity")));
        assert_eq!(rig.allocation(id).await.held, before.held);
    }
}

async fn a_whole_node_is_taken_alone(rig: &mut Rig) {
    let capacity = Capacity { gpus: 4, cpus: 4, memory_mb: 1, disk_mb: 1 };
    let (id, operation) = rig.create_as("whole", capacity, AllocationShape::Baremetal, None).await;
    assert_eq!(rig.drive(operation).await.state, OperationState::Succeeded);
    let allocation = rig.allocation(id).await;
    assert_eq!((allocation.held.gpus, allocation.held.cpus), (8, 32), "it has all of it");
    assert_eq!(rig.store.quota_lookup(rig.project.id).await.unwrap().used.gpus, 8, "and all of it counts");
    let (_, second) = rig.create("b", 0, None).await;
    assert_eq!(rig.drive(second).await.state, OperationState::Failed, "nobody else is on it");
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
    let small = rig.active("c", 1).await;
    let (_, whole) = rig.create_as("again", capacity, AllocationShape::Baremetal, None).await;
    assert_eq!(rig.drive(whole).await.state, OperationState::Failed, "it is not whole any more");
    let _ = small;
}

async fn operations_on_one_thing_run_in_order(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    let first = rig.ask(&RESTART, "allocation", id, json!({})).await;
    let second = rig.ask(&RESTART, "allocation", id, json!({})).await;
    rig.engine.round().await.unwrap();
    let waiting = rig.operation(second).await;
    assert_eq!(waiting.state, OperationState::Accepted);
    assert!(waiting.waiting.unwrap().contains(&first.to_string()));
    let other = rig.active("b", 1).await;
    assert_eq!(rig.drive(second).await.state, OperationState::Succeeded);
    assert_eq!(rig.operation(first).await.state, OperationState::Succeeded);
    assert_eq!(rig.allocation(id).await.incarnation, 3);
    let _ = other;
}

async fn an_operation_behind_a_blocked_one_fails_at_its_deadline(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    rig.node.wrong.extend([Wrong::Fails(TaskKind::Destroy); 3]);
    let blocked = rig.ask(&RESTART, "allocation", id, json!({})).await;
    assert_eq!(rig.drive(blocked).await.state, OperationState::Blocked);
    let behind = rig.ask(&RESTART, "allocation", id, json!({})).await;
    let ended = rig.drive(behind).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("deadline_passed")));
    assert!(ended.message.unwrap().contains(&blocked.to_string()), "it says behind whom it waited");
    assert_eq!(rig.operation(blocked).await.state, OperationState::Blocked, "which keeps what it touches");
    decide(rig, blocked, ResolveAction::Retry).await;
    assert_eq!(rig.drive(blocked).await.state, OperationState::Succeeded);
}

async fn a_drain_waits_for_the_tenants(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({})).await;
    rig.engine.round().await.unwrap();
    let (_, refused) = rig.create("b", 1, None).await;
    assert_eq!(rig.drive(refused).await.state, OperationState::Failed, "nothing new gets in");
    let waiting = rig.operation(drain).await;
    assert_eq!(waiting.items.len(), 1);
    assert_eq!(waiting.state, OperationState::Verifying);
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    rig.drive(release).await;
    let ended = rig.drive(drain).await;
    assert_eq!(ended.state, OperationState::Succeeded);
    assert_eq!(ended.items[0].state, ItemState::Succeeded);
    let node = rig.store.node_lookup(rig.node.id).await.unwrap().unwrap();
    assert!(node.cordoned && !node.draining, "empty it stays");
}

async fn a_drain_forces_at_its_deadline(rig: &mut Rig) {
    let (a, b) = (rig.active("a", 1).await, rig.active("b", 2).await);
    let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({"force": true})).await;
    let ended = rig.drive(drain).await;
    assert_eq!(ended.state, OperationState::Succeeded, "{ended:#?}");
    assert_eq!(ended.items.len(), 2);
    for id in [a, b] {
        assert_eq!(rig.allocation(id).await.state, AllocationState::Released);
    }
    let children = rig.store.operation_children(drain).await.unwrap();
    assert_eq!(children.len(), 2);
    assert!(children.iter().all(|child| child.state == OperationState::Succeeded));
}

async fn a_drain_without_force_is_blocked_at_its_deadline(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({})).await;
    let blocked = rig.drive(drain).await;
    assert_eq!(blocked.state, OperationState::Blocked);
    let actions = blocked.blocked.unwrap().actions;
    assert!(actions.contains(&ResolveAction::AcceptPartial) && actions.contains(&ResolveAction::Retry));
    assert_eq!(rig.allocation(id).await.state, AllocationState::Active, "its tenant keeps it");
    decide(rig, drain, ResolveAction::Abandon).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Cancelled);
    let node = rig.store.node_lookup(rig.node.id).await.unwrap().unwrap();
    assert!(!node.draining && !node.cordoned, "new work is let in again");
}

async fn an_empty_node_is_retired_with_evidence(rig: &mut Rig) {
    let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({})).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Succeeded);
    let retire = rig.ask(&RETIRE, "node", rig.node.id, json!({})).await;
    assert_eq!(rig.drive(retire).await.state, OperationState::Succeeded);
    let node = rig.store.node_lookup(rig.node.id).await.unwrap().unwrap();
    assert!(node.retired_at.is_some());
    let witness = rig.store.witness_lookup(node.retired_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!(witness.kind, WitnessKind::Witnessed);
}

async fn finished_work_leaves_the_hot_tables(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
    rig.drive(release).await;
    assert_eq!(rig.store.operation_count().await.unwrap(), []);
    let page = muster_db::Page { after: uuid::Uuid::nil(), size: 100 };
    let all = rig.store.operation_list(page, muster_db::OperationFilter::default()).await.unwrap();
    assert_eq!(all.len(), 2, "and is still found");
    assert!(all.iter().all(|operation| operation.finished_at.is_some()));
}

async fn unanswered_task_is_requested_again(rig: &mut Rig) {
    let (id, operation) = rig.create("a", 1, None).await;
    rig.engine.round().await.unwrap();
    // The agent received the task, ran it, and fell silent.
    rig.node.wrong.push(Wrong::DiesAfter(TaskKind::Prepare));
    let tasks = rig.store.task_deliver(rig.node.id, 1, rig.env.now(), 8).await.unwrap();
    assert_eq!(tasks.len(), 1);
    rig.clock.advance(SignedDuration::from_secs(11));
    let ended = rig.drive(operation).await;
    assert_eq!(ended.state, OperationState::Succeeded);
    let asked = rig.store.task_list(operation).await.unwrap();
    assert!(asked.iter().filter(|task| task.kind == TaskKind::Prepare).count() >= 2);
    assert_eq!(rig.allocation(id).await.state, AllocationState::Active);
}

async fn operation_blocked_too_long_is_escalated(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({})).await;
    rig.drive(drain).await;
    rig.clock.advance(TIMING.escalate + SignedDuration::from_secs(1));
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    rig.engine.round().await.unwrap();
    let blocked = rig.operation(drain).await;
    assert!(blocked.blocked.unwrap().escalated);
    let _ = id;
}
