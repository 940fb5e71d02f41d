//! Replacements with concurrent operations: no drained member is resumed, none is added twice, none needlessly.

use muster_engine::{member, members};
use muster_ids::{InstanceId, MemberId};
use muster_model::adapter::AdapterVerb;
use muster_model::allocation::AllocationState;
use muster_model::member::{Member, MemberState};
use muster_model::operation::{OperationKind, OperationState, StepState};
use serde_json::json;

use crate::laws;
use crate::member_stories::{part_of, succeeds};
use crate::rig::Rig;
use crate::stories::retry;
use muster_testkit::Database;

stories! {
    a_new_one_that_is_drained_meanwhile_stays_drained
    retried_replacement_adds_no_second_successor
    removed_member_gets_no_successor
    in_the_place_of_one_that_never_worked_one_more_is_wanted
    one_that_worked_and_is_removed_is_wanted_no_more
    allocation_made_for_a_member_is_released_with_its_last_member
    allocation_made_for_a_member_is_kept_while_another_cell_runs
}

async fn a_new_one_that_is_drained_meanwhile_stays_drained(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let old = rig.units(i).await[0];
    // The old one cannot be removed yet.
    rig.adapter.fails.push((AdapterVerb::Drain, "i-unit-1".to_owned()));
    let replace = rig.member_op(&member::REPLACE, old, json!({"force": false})).await;
    while rig.operation(replace).await.step("swap_begin").unwrap().state != StepState::Done {
        rig.turn().await;
    }
    let remove = part_of(rig, replace, "member.remove").await;
    assert_eq!(rig.drive(remove).await.state, OperationState::Blocked);
    let new = rig.units(i).await[1];
    let drain = rig.member_op(&member::DRAIN, new, json!({})).await;
    succeeds(rig, drain).await;
    rig.pass(jiff::SignedDuration::from_secs(10)).await;
    assert_eq!(rig.member(new).await.state, MemberState::Drained);
    rig.adapter.fails.clear();
    retry(rig, remove).await;
    succeeds(rig, replace).await;
    assert_eq!(rig.member(old).await.state, MemberState::Removed);
    assert_eq!(rig.member(new).await.state, MemberState::Drained, "nobody put it back to work");
}

async fn retried_replacement_adds_no_second_successor(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let old = rig.units(i).await[0];
    rig.adapter.lies.insert(AdapterVerb::Join);
    let replace = rig.member_op(&member::REPLACE, old, json!({"force": false})).await;
    assert_eq!(rig.drive(replace).await.state, OperationState::Blocked);
    let add = part_of(rig, replace, "member.add").await;
    retry(rig, replace).await;
    rig.pass(jiff::SignedDuration::from_secs(5)).await;
    rig.adapter.lies.clear();
    retry(rig, add).await;
    succeeds(rig, replace).await;
    let children = rig.store.operation_children(replace).await.unwrap();
    assert_eq!(children.iter().filter(|child| child.kind == OperationKind::MemberAdd).count(), 1);
    assert_eq!(rig.units(i).await.len(), 1);
}

async fn removed_member_gets_no_successor(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let old = rig.units(i).await[0];
    let remove = rig.member_op(&member::REMOVE, old, json!({"force": false})).await;
    let replace = rig.member_op(&member::REPLACE, old, json!({"force": false})).await;
    succeeds(rig, remove).await;
    assert_eq!(rig.drive(replace).await.state, OperationState::Failed);
    assert_eq!(rig.desired(i, "unit").await, 0);
    for id in rig.units(i).await {
        assert_eq!(rig.member(id).await.state, MemberState::Failed);
    }
}

async fn in_the_place_of_one_that_never_worked_one_more_is_wanted(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let failed = rig.failed_unit(i).await;
    // A failed replacement does not raise the desired count; neither does one that never started.
    rig.adapter.cannot(AdapterVerb::Join);
    let replace = rig.member_op(&member::REPLACE, failed, json!({"force": false})).await;
    assert_eq!(rig.drive(replace).await.state, OperationState::Failed);
    assert_eq!(rig.desired(i, "unit").await, 0);
    let others = rig.failed_unit(i).await;
    rig.adapter.cannot(AdapterVerb::Join);
    let many = rig.members_op(&members::REPLACE, i, &[failed, others]).await;
    assert!(rig.drive(many).await.state.is_final());
    assert_eq!(rig.desired(i, "unit").await, 0);
    rig.adapter.fails.clear();
    let replace = rig.member_op(&member::REPLACE, failed, json!({"force": false})).await;
    succeeds(rig, replace).await;
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn one_that_worked_and_is_removed_is_wanted_no_more(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let broken = rig.broken_unit(i).await;
    assert_eq!(rig.desired(i, "unit").await, 1);
    let remove = rig.member_op(&member::REMOVE, broken, json!({"force": false})).await;
    succeeds(rig, remove).await;
    assert_eq!(rig.desired(i, "unit").await, 0);
}

/// Adds a unit to the allocation that was made for another.
async fn beside(rig: &mut Rig, i: InstanceId, first: MemberId) -> MemberId {
    let (second, add) = rig.add(i).await;
    let member = rig.member(second).await;
    let named = Member { allocation_id: rig.member(first).await.allocation_id, ..member.clone() };
    let mut tx = rig.store.begin().await.unwrap();
    tx.member_move(&member, &named, rig.env.now()).await.unwrap();
    tx.commit().await.unwrap();
    succeeds(rig, add).await;
    second
}

async fn allocation_made_for_a_member_is_released_with_its_last_member(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let first = rig.units(i).await[0];
    let held = rig.member(first).await.allocation_id.unwrap();
    let second = beside(rig, i, first).await;
    let remove = rig.member_op(&member::REMOVE, first, json!({"force": false})).await;
    succeeds(rig, remove).await;
    assert_eq!(rig.allocation(held).await.state, AllocationState::Active);
    assert_eq!(rig.member(second).await.state, MemberState::Active);
    let third = beside(rig, i, second).await;
    let both = rig.members_op(&members::REMOVE, i, &[second, third]).await;
    succeeds(rig, both).await;
    assert_eq!(rig.allocation(held).await.state, AllocationState::Released, "nobody else would release it");
}

async fn allocation_made_for_a_member_is_kept_while_another_cell_runs(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let held = rig.member(unit).await.allocation_id.unwrap();
    let (shell, create) = rig.cell(held, "shell").await;
    succeeds(rig, create).await;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    succeeds(rig, remove).await;
    assert_eq!(rig.allocation(held).await.state, AllocationState::Active);
    assert!(rig.node.cells.contains_key(&shell));
}
