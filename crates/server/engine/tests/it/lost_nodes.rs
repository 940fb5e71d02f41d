//! Members on nodes that are unreachable for a long time, or drained by force.

use jiff::SignedDuration;
use muster_engine::node::DRAIN;
use muster_engine::{definition, go_on, member};
use muster_ids::NodeId;
use muster_model::adapter::AdapterVerb;
use muster_model::member::{MemberFailure, MemberState};
use muster_model::operation::{OperationKind, OperationState, StepState};
use muster_model::witness::{Transition, WitnessKind};
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::{cordon, on_a_lost_node, replaced, succeeds};
use crate::rig::{Rig, TIMING};
use crate::stories::{attest, retry};

stories! {
    blocked_cleanup_completes_when_its_node_returns
    a_removal_goes_on_with_the_end_of_what_it_waited_for
    one_that_is_not_replaced_after_all_is_let_in_again
    one_whose_node_is_back_before_it_is_replaced_is_let_in_again
    a_member_whose_allocation_is_taken_by_force_has_failed
    forced_removal_fences_an_unreachable_member
    unforced_removal_fences_no_member
    no_member_is_cut_off_for_a_successor_without_room
}

/// The node reconnects without stale copies.
pub(crate) async fn back(rig: &mut Rig) {
    let far = rig.far.as_mut().unwrap();
    far.reachable = true;
    let (id, now): (NodeId, _) = (far.id, rig.env.now());
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_back(id, now).await.unwrap());
    if tx.cell_let_in_on(id, now).await.unwrap() {
        tx.bump_desired_node(id).await.unwrap();
    }
    for blocked in tx.operation_blocked_on(id).await.unwrap() {
        let mut fresh = tx.operation_seize(blocked.id).await.unwrap().unwrap();
        let kind = definition(fresh.kind).unwrap();
        assert!(go_on(&mut fresh, kind, &TIMING, now));
        tx.operation_advance(&fresh, now, None).await.unwrap();
    }
    tx.commit().await.unwrap();
}

async fn blocked_cleanup_completes_when_its_node_returns(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let remove = replaced(rig, i, unit).await;
    rig.pass(TIMING.release * 3).await;
    let children = rig.store.operation_children(remove).await.unwrap();
    let release = children.iter().find(|child| child.kind == OperationKind::AllocationRelease).unwrap().id;
    for id in [remove, release] {
        assert_eq!(rig.operation(id).await.state, OperationState::Blocked);
    }
    back(rig).await;
    succeeds(rig, remove).await;
    assert_eq!(rig.operation(release).await.state, OperationState::Succeeded, "it was not begun anew");
    let far = rig.far.as_ref().unwrap();
    assert!(far.sandboxes.is_empty() && far.cells.is_empty() && far.dirty.is_empty());
}

async fn a_removal_goes_on_with_the_end_of_what_it_waited_for(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let remove = replaced(rig, i, unit).await;
    rig.pass(TIMING.release * 3).await;
    let children = rig.store.operation_children(remove).await.unwrap();
    let release = children.iter().find(|child| child.kind == OperationKind::AllocationRelease).unwrap().id;
    attest(rig, rig.member(unit).await.allocation_id.unwrap()).await;
    retry(rig, release).await;
    succeeds(rig, release).await;
    rig.pass(SignedDuration::from_secs(10)).await;
    assert_eq!(rig.operation(remove).await.state, OperationState::Succeeded);
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    rig.far = None;
}

async fn one_that_is_not_replaced_after_all_is_let_in_again(rig: &mut Rig) {
    let (_, unit) = on_a_lost_node(rig).await;
    rig.adapter.cannot(AdapterVerb::Join);
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    let ended = rig.drive(replace).await;
    assert_eq!(
        (ended.state, ended.step("fence").unwrap().output["fenced"] == json!(true)),
        (OperationState::Failed, true)
    );
    let member = rig.member(unit).await;
    let cell = rig.store.cell_lookup(member.cell_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((member.state, member.fenced, cell.fenced), (MemberState::Active, false, false));
}

async fn no_member_is_cut_off_for_a_successor_without_room(rig: &mut Rig) {
    let (_, unit) = on_a_lost_node(rig).await;
    cordon(rig, true).await;
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    let ended = rig.drive(replace).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("no_capacity")));
    assert_eq!(ended.step("fence").unwrap().state, StepState::Pending);
    assert!(!rig.member(unit).await.fenced);
}

async fn one_whose_node_is_back_before_it_is_replaced_is_let_in_again(rig: &mut Rig) {
    let (_, unit) = on_a_lost_node(rig).await;
    rig.adapter.silent = true;
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    while !rig.member(unit).await.fenced {
        rig.pass(SignedDuration::from_secs(1)).await;
    }
    back(rig).await;
    let member = rig.member(unit).await;
    let cell = rig.store.cell_lookup(member.cell_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((member.state, member.fenced, cell.fenced), (MemberState::Active, false, false));
    // It is drained before its removal, like every active member.
    rig.adapter.silent = false;
    succeeds(rig, replace).await;
    let old = rig.member(unit).await;
    assert_eq!(old.state, MemberState::Removed);
    assert!(old.drained_witness_id.is_some());
}

async fn forced_removal_fences_an_unreachable_member(rig: &mut Rig) {
    let (_, unit) = on_a_lost_node(rig).await;
    rig.adapter.did.clear();
    rig.adapter.silent = true;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": true})).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    let old = rig.member(unit).await;
    let cell = rig.store.cell_lookup(old.cell_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((old.state, old.fenced, cell.fenced), (MemberState::Removing, true, true));
    let fence = rig.operation(remove).await.step("fence").unwrap().clone();
    let witness = rig.store.witness_lookup(fence.witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((fence.output["fenced"] == json!(true), witness.transition), (true, Transition::Fenced));
    let knows = rig.store.network_neighbours(cell.network_id).await.unwrap();
    assert!(!knows.is_empty() && knows.iter().all(|other| other.name != cell.name), "{knows:#?}");
    assert!(
        rig.store.instance_unwitnessed_at(old.instance_id).await.unwrap().is_some(),
        "nobody saw its end"
    );
    // The node returns, and its member is not unfenced: it is being removed.
    rig.adapter.silent = false;
    back(rig).await;
    let cell = rig.store.cell_lookup(cell.id).await.unwrap().unwrap();
    assert!(cell.fenced && rig.member(unit).await.fenced);
    succeeds(rig, remove).await;
    let old = rig.member(unit).await;
    let witness = rig.store.witness_lookup(old.removed_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((old.state, witness.kind), (MemberState::Removed, WitnessKind::Witnessed));
    let far = rig.far.as_ref().unwrap();
    assert!(far.sandboxes.is_empty() && far.cells.is_empty() && far.dirty.is_empty());
}

async fn unforced_removal_fences_no_member(rig: &mut Rig) {
    let (_, unit) = on_a_lost_node(rig).await;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    rig.pass(SignedDuration::from_secs(10)).await;
    let member = rig.member(unit).await;
    let cell = rig.store.cell_lookup(member.cell_id.unwrap()).await.unwrap().unwrap();
    assert!(!member.fenced && !cell.fenced);
    assert!(rig.store.instance_unwitnessed_at(member.instance_id).await.unwrap().is_none());
    back(rig).await;
    succeeds(rig, remove).await;
    let old = rig.member(unit).await;
    assert!(old.state == MemberState::Removed && old.drained_witness_id.is_some() && !old.fenced);
}

async fn a_member_whose_allocation_is_taken_by_force_has_failed(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({"force": true})).await;
    succeeds(rig, drain).await;
    for id in [unit, rig.hub(i).await] {
        let member = rig.member(id).await;
        assert_eq!(
            (member.state, member.failure_reason),
            (MemberState::Failed, Some(MemberFailure::CellEnded)),
            "{}",
            member.name
        );
    }
}
