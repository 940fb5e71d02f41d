//! Forced removals of what is on an unreachable node end in quarantine: the tenant does not wait for the node, and nothing is
//! reported removed, released or stopped before the platform has evidence or an attestation.

use jiff::SignedDuration;
use muster_engine::{instance, member};
use muster_ids::{AllocationId, InstanceId, MemberId, OperationId, TypedId as _};
use muster_model::allocation::AllocationState;
use muster_model::instance::InstanceState;
use muster_model::member::MemberState;
use muster_model::node::SlotState;
use muster_model::operation::{ItemState, Operation, OperationState, ResolveAction};
use muster_model::witness::WitnessKind;
use muster_testkit::Database;
use serde_json::json;

use crate::desk::{Actor, Desk};
use crate::laws;
use crate::lost_nodes::back;
use crate::member_stories::{cordon, on_a_lost_node, succeeds};
use crate::rig::{Rig, TIMING};

stories! {
    a_forced_removal_ends_and_the_platform_finishes_it_when_the_node_is_back
    the_platform_finishes_a_forced_removal_on_an_operators_word
    quarantined_removal_delays_no_other_operation
    a_forced_decommission_ends_and_the_platform_finishes_it
    a_decommission_that_is_not_forced_waits_for_the_node
    a_member_whose_node_is_lost_while_it_leaves_is_cut_off_then
    of_several_only_those_on_the_lost_node_are_left_in_quarantine
    a_forced_release_ends_and_the_platform_finishes_it_when_the_node_is_back
    the_platform_finishes_a_forced_release_on_an_operators_word
    a_release_that_waits_for_its_node_can_be_forced
    a_forced_release_leaves_its_members_to_the_platform_too
}

/// Returns the platform's open operation of this kind that finishes what `left` left.
async fn remainder(rig: &Rig, left: OperationId, kind: &str, subject: uuid::Uuid) -> Operation {
    let open = rig.store.operation_open_on(subject).await.unwrap();
    let of =
        |operation: &&Operation| operation.kind.as_str() == kind && operation.input.quarantined == Some(left);
    let rest = open.iter().find(of).cloned().unwrap_or_else(|| panic!("no operation finishes it: {open:#?}"));
    assert_eq!((rest.asked_by.kind.as_str(), rest.parent_id), ("platform", None));
    rest
}

/// Removes a unit on the lost node by force; returns the ended operation.
async fn removed_by_force(rig: &mut Rig, unit: MemberId) -> Operation {
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": true})).await;
    let ended = rig.drive(remove).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Partial, Some("quarantined")));
    let message = ended.message.clone().unwrap();
    assert!(
        message.contains("node far is unreachable") && message.contains("an operator attests"),
        "{message}"
    );
    // Nothing is claimed: its allocation keeps its slots and its share of the quota.
    let member = rig.member(unit).await;
    assert_eq!((member.state, member.fenced, member.removed_witness_id), (MemberState::Removing, true, None));
    let held = rig.allocation(member.allocation_id.unwrap()).await;
    assert!(!held.state.is_final() && held.wiped_witness_id.is_none());
    let quota = rig.store.quota_lookup(rig.project.id).await.unwrap();
    assert_eq!(quota.used.gpus, rig.unit_gpus);
    ended
}

async fn a_forced_removal_ends_and_the_platform_finishes_it_when_the_node_is_back(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let ended = removed_by_force(rig, unit).await;
    assert_eq!(rig.desired(i, "unit").await, 0);
    let rest = remainder(rig, ended.id, "member.remove", unit.uuid()).await;
    rig.pass(TIMING.release * 3).await;
    let blocked = rig.operation(rest.id).await.blocked.unwrap();
    assert_eq!((blocked.resolvable_by.as_str(), blocked.actions), ("operator", vec![ResolveAction::Retry]));
    back(rig).await;
    succeeds(rig, rest.id).await;
    let member = rig.member(unit).await;
    let witness = rig.store.witness_lookup(member.removed_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((member.state, witness.kind), (MemberState::Removed, WitnessKind::Witnessed));
    let far = rig.far.as_ref().unwrap();
    assert!(far.sandboxes.is_empty() && far.cells.is_empty() && far.dirty.is_empty());
}

async fn the_platform_finishes_a_forced_removal_on_an_operators_word(rig: &mut Rig) {
    let (_, unit) = on_a_lost_node(rig).await;
    let ended = removed_by_force(rig, unit).await;
    let rest = remainder(rig, ended.id, "member.remove", unit.uuid()).await;
    rig.pass(TIMING.release * 3).await;
    let (desk, name) = (Desk::new(rig).await, rig.member(unit).await.name);
    let word = json!({"statement": "the machine was destroyed"});
    let refused = desk.order(Actor::Tenant, "allocation.attest", &name, word.clone()).await.unwrap_err();
    assert_eq!(refused.code.status(), 403, "only operators attest");
    desk.order(Actor::Operator, "allocation.attest", &name, word).await.unwrap();
    rig.pass(SignedDuration::from_secs(20)).await;
    assert_eq!(rig.operation(rest.id).await.state, OperationState::Succeeded);
    let member = rig.member(unit).await;
    let witness = rig.store.witness_lookup(member.removed_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((member.state, witness.kind), (MemberState::Removed, WitnessKind::Attested));
    rig.far = None;
}

async fn quarantined_removal_delays_no_other_operation(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    removed_by_force(rig, unit).await;
    // An operation on the whole instance.
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": rig.catalog.versions[1]}), false);
    let upgrade = upgrade.await;
    succeeds(rig, upgrade).await;
    // The same again is refused while the platform works on it, and accepted once that is blocked.
    let (desk, name) = (Desk::new(rig).await, rig.member(unit).await.name);
    let again = json!({"members": [name], "force": true});
    let refused = desk.order(Actor::Tenant, "member.remove", "i", again.clone()).await.unwrap_err();
    assert!(refused.detail.contains("already in progress"), "{}", refused.detail);
    rig.pass(TIMING.release * 3).await;
    let started = desk.order(Actor::Tenant, "member.remove", "i", again).await.unwrap();
    let id: OperationId = started["operation"]["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(rig.drive(id).await.state, OperationState::Partial);
    assert_eq!(rig.desired(i, "unit").await, 0, "it is subtracted once");
    back(rig).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
}

/// Decommissions the instance by force; returns the ended operation.
async fn stopped_by_force(rig: &mut Rig, i: InstanceId) -> Operation {
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({"force": true}), false).await;
    let ended = rig.drive(stop).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Partial, Some("quarantined")));
    ended
}

async fn a_forced_decommission_ends_and_the_platform_finishes_it(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let hub = rig.hub(i).await;
    let ended = stopped_by_force(rig, i).await;
    let states: Vec<_> = ended.items.iter().map(|item| (item.id.clone(), item.state)).collect();
    assert!(states.contains(&(hub.to_string(), ItemState::Succeeded)), "{states:?}");
    assert!(states.contains(&(unit.to_string(), ItemState::Partial)), "{states:?}");
    let left = rig.app_instance(i).await;
    assert_eq!((left.state, left.stopped_witness_id), (InstanceState::Stopping, None), "nothing is claimed");
    assert_eq!(rig.member(hub).await.state, MemberState::Removed);
    // Its name is free for another instance, in a network of its own.
    assert!(rig.store.instance_with_name(rig.project.id, "i").await.unwrap().is_none());
    let network = rig.store.network_lookup(left.network_id).await.unwrap().unwrap();
    assert_eq!(network.name, i.to_string());
    let rest = remainder(rig, ended.id, "instance.decommission", i.uuid()).await;
    rig.pass(TIMING.release * 3).await;
    let blocked = rig.operation(rest.id).await.blocked.unwrap();
    assert_eq!((blocked.resolvable_by.as_str(), blocked.actions), ("operator", vec![ResolveAction::Retry]));
    back(rig).await;
    succeeds(rig, rest.id).await;
    let stopped = rig.app_instance(i).await;
    let witness = rig.store.witness_lookup(stopped.stopped_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((stopped.state, witness.kind), (InstanceState::Stopped, WitnessKind::Witnessed));
}

async fn a_decommission_that_is_not_forced_waits_for_the_node(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({"force": false}), false).await;
    rig.pass(SignedDuration::from_mins(10)).await;
    assert_eq!(rig.operation(stop).await.state, OperationState::Blocked);
    assert!(!rig.member(unit).await.fenced);
    assert!(rig.store.instance_with_name(rig.project.id, "i").await.unwrap().is_some());
    back(rig).await;
    rig.pass(SignedDuration::from_secs(30)).await;
    assert_eq!(rig.app_instance(i).await.state, InstanceState::Stopped);
}

async fn a_member_whose_node_is_lost_while_it_leaves_is_cut_off_then(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.add_far(2, 8).await;
    cordon(rig, true).await;
    let (unit, add) = rig.add(i).await;
    succeeds(rig, add).await;
    cordon(rig, false).await;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": true})).await;
    // Its removal is past the fence, which found its node answering, and its cell is about to be destroyed.
    rig.far.as_mut().unwrap().reachable = false;
    rig.pass(SignedDuration::from_secs(5)).await;
    let under_way = rig.operation(remove).await;
    assert_eq!(under_way.step("fence").unwrap().witness_id, None);
    assert!(
        under_way.current().is_some_and(|at| under_way.steps[at].name == "destroy_cell"),
        "{under_way:#?}"
    );
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_lost(rig.far.as_ref().unwrap().id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    let ended = rig.drive(remove).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Partial, Some("quarantined")));
    assert!(rig.member(unit).await.fenced);
    back(rig).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
}

async fn of_several_only_those_on_the_lost_node_are_left_in_quarantine(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let (other, add) = rig.add(i).await;
    succeeds(rig, add).await;
    let desk = Desk::new(rig).await;
    let names = [rig.member(unit).await.name, rig.member(other).await.name];
    let both = json!({"members": names, "force": true});
    let started = desk.order(Actor::Tenant, "member.remove", "i", both).await.unwrap();
    let id: OperationId = started["operation"]["id"].as_str().unwrap().parse().unwrap();
    let ended = rig.drive(id).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Partial, Some("quarantined")));
    let states: Vec<ItemState> = ended.items.iter().map(|item| item.state).collect();
    assert_eq!(states, [ItemState::Partial, ItemState::Succeeded]);
    assert_eq!(rig.member(other).await.state, MemberState::Removed);
    back(rig).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
}

/// Creates an allocation with a GPU on a node, which is lost then.
async fn allocated_on_a_lost_node(rig: &mut Rig) -> AllocationId {
    rig.add_far(2, 8).await;
    cordon(rig, true).await;
    let a = rig.active("a", 1).await;
    cordon(rig, false).await;
    let far = rig.far.as_mut().unwrap();
    assert!(far.sandboxes.contains_key(&a));
    far.reachable = false;
    let id = far.id;
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_lost(id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    a
}

async fn started(desk: &Desk, action: &str, target: &str, body: serde_json::Value) -> OperationId {
    let started = desk.order(Actor::Tenant, action, target, body).await.unwrap();
    started["operation"]["id"].as_str().unwrap().parse().unwrap()
}

/// Ensures that a release ended in quarantine and that nothing is claimed: the allocation keeps its slots and its share of
/// the quota.
async fn ensure_quarantined(rig: &Rig, a: AllocationId, ended: &Operation) {
    assert_eq!(
        (ended.state, ended.reason.as_deref()),
        (OperationState::Partial, Some("quarantined")),
        "{ended:#?}"
    );
    let message = ended.message.clone().unwrap();
    assert!(
        message.contains("node far is unreachable") && message.contains("an operator attests"),
        "{message}"
    );
    let held = rig.allocation(a).await;
    assert_eq!((held.state, held.wiped_witness_id), (AllocationState::Releasing, None));
    assert_eq!(rig.store.claims_of(a).await.unwrap().len(), 1, "its slot stays claimed");
    assert_eq!(rig.store.quota_lookup(rig.project.id).await.unwrap().used.gpus, 1);
    let cells = rig.store.cell_live_in(a).await.unwrap();
    assert!(cells.iter().all(|cell| cell.destroyed_witness_id.is_none()));
}

async fn a_forced_release_ends_and_the_platform_finishes_it_when_the_node_is_back(rig: &mut Rig) {
    let a = allocated_on_a_lost_node(rig).await;
    let desk = Desk::new(rig).await;
    let release = started(&desk, "allocation.release", "a", json!({"force": true})).await;
    let ended = rig.drive(release).await;
    ensure_quarantined(rig, a, &ended).await;
    let rest = remainder(rig, release, "allocation.release", a.uuid()).await;
    let again =
        desk.order(Actor::Tenant, "allocation.release", "a", json!({"force": true})).await.unwrap_err();
    assert!(again.detail.contains("already in progress"), "{}", again.detail);
    rig.pass(TIMING.release * 3).await;
    let blocked = rig.operation(rest.id).await.blocked.unwrap();
    assert_eq!(
        (blocked.resolvable_by.as_str(), blocked.actions),
        ("operator", vec![ResolveAction::Retry, ResolveAction::Abandon])
    );
    assert_eq!(rig.allocation(a).await.state, AllocationState::Releasing);
    back(rig).await;
    succeeds(rig, rest.id).await;
    let released = rig.allocation(a).await;
    let witness = rig.store.witness_lookup(released.wiped_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((released.state, witness.kind), (AllocationState::Released, WitnessKind::Witnessed));
    let far = rig.far.as_ref().unwrap();
    assert!(far.sandboxes.is_empty() && far.cells.is_empty() && far.dirty.is_empty());
    assert_eq!(rig.store.quota_lookup(rig.project.id).await.unwrap().used.gpus, 0);
}

async fn the_platform_finishes_a_forced_release_on_an_operators_word(rig: &mut Rig) {
    let a = allocated_on_a_lost_node(rig).await;
    let desk = Desk::new(rig).await;
    let release = started(&desk, "allocation.release", "a", json!({"force": true})).await;
    let ended = rig.drive(release).await;
    ensure_quarantined(rig, a, &ended).await;
    let rest = remainder(rig, release, "allocation.release", a.uuid()).await;
    let word = json!({"statement": "the machine was destroyed"});
    let refused = desk.order(Actor::Tenant, "allocation.attest", "a", word.clone()).await.unwrap_err();
    assert_eq!(refused.code.status(), 403, "only operators attest");
    desk.order(Actor::Operator, "allocation.attest", "a", word).await.unwrap();
    rig.pass(SignedDuration::from_secs(20)).await;
    assert_eq!(rig.operation(rest.id).await.state, OperationState::Succeeded);
    let released = rig.allocation(a).await;
    let witness = rig.store.witness_lookup(released.wiped_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((released.state, witness.kind), (AllocationState::Released, WitnessKind::Attested));
    let slots = rig.store.slot_list(rig.far.as_ref().unwrap().id).await.unwrap();
    assert!(slots.iter().any(|slot| slot.state == SlotState::Quarantined), "{slots:?}");
    rig.far = None;
}

async fn a_release_that_waits_for_its_node_can_be_forced(rig: &mut Rig) {
    let a = allocated_on_a_lost_node(rig).await;
    let desk = Desk::new(rig).await;
    let waits = started(&desk, "allocation.release", "a", json!({})).await;
    rig.pass(SignedDuration::from_secs(30)).await;
    assert!(!rig.operation(waits).await.state.is_final(), "one that is not forced waits for the node");
    let release = started(&desk, "allocation.release", "a", json!({"force": true})).await;
    assert_eq!(rig.operation(waits).await.state, OperationState::Superseded);
    let ended = rig.drive(release).await;
    ensure_quarantined(rig, a, &ended).await;
    back(rig).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    assert_eq!(rig.allocation(a).await.state, AllocationState::Released);
}

async fn a_forced_release_leaves_its_members_to_the_platform_too(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let a = rig.member(unit).await.allocation_id.unwrap();
    let (desk, name) = (Desk::new(rig).await, rig.allocation(a).await.name);
    let release = started(&desk, "allocation.release", &name, json!({"force": true, "cascade": true})).await;
    let ended = rig.drive(release).await;
    ensure_quarantined(rig, a, &ended).await;
    let member = rig.member(unit).await;
    assert_eq!((member.state, member.fenced, member.removed_witness_id), (MemberState::Removing, true, None));
    assert_eq!(rig.desired(i, "unit").await, 0);
    rig.pass(SignedDuration::from_hours(2)).await;
    let removal = rig.store.operation_open_on(unit.uuid()).await.unwrap();
    let blocked = removal[0].blocked.clone().unwrap();
    assert_eq!(blocked.resolvable_by, "operator", "the tenant has nothing to decide: {removal:#?}");
    back(rig).await;
    rig.pass(SignedDuration::from_secs(60)).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.allocation(a).await.state, AllocationState::Released);
}
