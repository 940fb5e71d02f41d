//! Replacements beside which something else happens: nobody is put back to work, nobody comes twice, nobody comes for nothing.

use muster_model::adapter::AdapterVerb;
use muster_model::member::MemberState;
use muster_model::operation::{OperationState, StepState};
use muster_operations::member;
use serde_json::json;

use crate::laws;
use crate::member_stories::{part_of, succeeds};
use crate::rig::Rig;
use crate::stories::retry;
use muster_testkit::Database;

stories! {
    a_new_one_that_is_drained_meanwhile_stays_drained
    a_replacement_that_is_tried_again_adds_nobody_twice
    nobody_takes_the_place_of_one_that_went
}

async fn a_new_one_that_is_drained_meanwhile_stays_drained(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let old = rig.units(i).await[0];
    // The old one is not let go yet.
    rig.adapter.fails.push((AdapterVerb::Drain, "i-unit-1".to_owned()));
    let replace = rig.member_op(&member::REPLACE, old, json!({"force": false})).await;
    while rig.operation(replace).await.step("first").unwrap().state != StepState::Done {
        rig.turn().await;
    }
    let remove = part_of(rig, replace, "member.remove").await;
    assert_eq!(rig.drive(remove).await.state, OperationState::Parked);
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

async fn a_replacement_that_is_tried_again_adds_nobody_twice(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let old = rig.units(i).await[0];
    rig.adapter.lies.insert(AdapterVerb::Join);
    let replace = rig.member_op(&member::REPLACE, old, json!({"force": false})).await;
    assert_eq!(rig.drive(replace).await.state, OperationState::Parked);
    let add = part_of(rig, replace, "member.add").await;
    retry(rig, replace).await;
    rig.pass(jiff::SignedDuration::from_secs(5)).await;
    rig.adapter.lies.clear();
    retry(rig, add).await;
    succeeds(rig, replace).await;
    let children = rig.store.operation_children(replace).await.unwrap();
    assert_eq!(children.iter().filter(|child| child.kind == "member.add").count(), 1);
    assert_eq!(rig.units(i).await.len(), 1);
}

async fn nobody_takes_the_place_of_one_that_went(rig: &mut Rig) {
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
