//! Which observations count as evidence, how long the engine waits for it, and which member provides it.

use jiff::SignedDuration;
use muster_engine::member;
use muster_ids::{MemberId, OperationId};
use muster_model::adapter::AdapterVerb;
use muster_model::member::{MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationState};
use muster_testkit::Database;
use serde_json::json;

use crate::member_stories::{cordon, succeeds, why};
use crate::rig::{Rig, TIMING};
use crate::stories::retry;
use crate::{laws, lost_cells};

stories! {
    verification_that_never_becomes_ready_is_blocked_in_bounded_time
    a_member_with_services_that_are_never_ready_fails_with_that_reason
    retried_operation_waits_anew_for_an_active_member
    verification_asks_a_reachable_member_first
    records_of_a_drained_hub_still_count
}

async fn verification_that_never_becomes_ready_is_blocked_in_bounded_time(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let hub = rig.hub(i).await;
    rig.node.unready = true;
    let began = rig.env.now();
    let drain = rig.member_op(&member::DRAIN, hub, json!({})).await;
    let blocked = rig.drive(drain).await;
    assert!(!why(&blocked).contains("deadline"), "{}", why(&blocked));
    let took = rig.env.now().duration_since(began);
    assert!(took < TIMING.task * 3, "it took {took:#}");
    rig.node.unready = false;
    retry(rig, drain).await;
    succeeds(rig, drain).await;
}

async fn a_member_with_services_that_are_never_ready_fails_with_that_reason(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.node.unready = true;
    // Units start their service on request, so only a hub waits for it.
    let (added, add) = rig.add_to(i, "hub").await;
    let ended = late(rig, added, add).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("deadline_passed")));
    let member = rig.member(added).await;
    assert_eq!(
        (member.state, member.failure_reason),
        (MemberState::Failed, Some(MemberFailure::BootstrapTimeout))
    );
    // Recovered in place, its cell is created again.
    let hub = rig.hub(i).await;
    lost_cells::kill(rig, hub).await;
    let recover = rig.member_op(&member::RECOVER, hub, json!({"force": false})).await;
    assert_eq!(late(rig, hub, recover).await.state, OperationState::Failed);
    assert_eq!(rig.member(hub).await.failure_reason, Some(MemberFailure::BootstrapTimeout));
    rig.node.unready = false;
    let recover = rig.member_op(&member::RECOVER, hub, json!({"force": false})).await;
    succeeds(rig, recover).await;
    // A member without a cell is not late by its services.
    let (added, add) = rig.add_to(i, "hub").await;
    pass_deadline(rig, add).await;
    assert_eq!(rig.drive(add).await.state, OperationState::Failed);
    assert_ne!(rig.member(added).await.failure_reason, Some(MemberFailure::BootstrapTimeout));
}

/// Lets the deadline of an operation pass as soon as the member's cell runs on the node.
async fn late(rig: &mut Rig, id: MemberId, operation: OperationId) -> Operation {
    loop {
        let cell = rig.member(id).await.cell_id;
        if cell.is_some_and(|cell| rig.node.runs(cell)) {
            break;
        }
        rig.pass(SignedDuration::from_millis(500)).await;
    }
    rig.pass(SignedDuration::from_secs(1)).await;
    pass_deadline(rig, operation).await;
    rig.drive(operation).await
}

async fn pass_deadline(rig: &Rig, operation: OperationId) {
    let deadline = rig.operation(operation).await.deadline_at;
    rig.clock.advance(deadline.duration_since(rig.env.now()));
}

async fn retried_operation_waits_anew_for_an_active_member(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let hub = rig.hub(i).await;
    let out = rig.member_op(&member::DRAIN, hub, json!({})).await;
    succeeds(rig, out).await;
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    let blocked = rig.drive(drain).await;
    assert!(why(&blocked).contains("no active member"), "{}", why(&blocked));
    rig.pass(SignedDuration::from_secs(30)).await;
    retry(rig, drain).await;
    let waits = loop {
        let now = rig.operation(drain).await;
        if now.state == OperationState::Blocked {
            break false;
        }
        if now.waiting.is_some_and(|waiting| waiting.contains("no active member")) {
            break true;
        }
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_millis(100));
        }
    };
    assert!(waits, "it was given no time");
    let back = rig.member_op(&member::RESUME, hub, json!({})).await;
    succeeds(rig, back).await;
    if rig.drive(drain).await.state == OperationState::Blocked {
        retry(rig, drain).await;
    }
    succeeds(rig, drain).await;
}

async fn verification_asks_a_reachable_member_first(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.add_far(2, 8).await;
    cordon(rig, true).await;
    let (second, add) = rig.add_to(i, "hub").await;
    succeeds(rig, add).await;
    // The first hub is on an unreachable node; the second has the same records.
    rig.node.reachable = false;
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_lost(rig.node.id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    let cell = rig.member(second).await.cell_id.unwrap();
    let files = rig.far.as_mut().unwrap().files.entry(cell).or_default();
    files.insert("/members/i-unit-1".to_owned(), "active".to_owned());
    let (unit, add) = rig.add(i).await;
    succeeds(rig, add).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Active);
}

async fn records_of_a_drained_hub_still_count(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    for id in [unit, rig.hub(i).await] {
        let drain = rig.member_op(&member::DRAIN, id, json!({})).await;
        succeeds(rig, drain).await;
    }
    rig.adapter.lies.insert(AdapterVerb::Remove);
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    let blocked = rig.drive(remove).await;
    assert!(why(&blocked).contains("check 0 (/bin/test -e /members/i-unit-1"), "{}", why(&blocked));
    rig.adapter.lies.clear();
    retry(rig, remove).await;
    succeeds(rig, remove).await;
}
