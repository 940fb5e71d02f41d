//! Draining a node: nothing is removed before its successor is active, and an incomplete drain does not succeed.

use jiff::SignedDuration;
use muster_engine::node::DRAIN;
use muster_engine::{instance, member};
use muster_ids::{InstanceId, MemberId, OperationId};
use muster_model::adapter::AdapterVerb;
use muster_model::allocation::AllocationState;
use muster_model::member::MemberState;
use muster_model::operation::{Item, ItemState, OperationState, ResolveAction};
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::{cancel, cordon, part_of, succeeds, why};
use crate::rig::Rig;
use crate::stories::{decide, retry};

stories! {
    a_replacement_without_room_leaves_the_old_one_alone
    the_room_of_a_successor_is_there_before_the_old_one_stops
    a_replacement_that_must_not_stop_the_old_one_first_does_not
    a_drain_leaves_a_member_where_it_is_that_stops_before_its_successor_starts
    a_drain_goes_on_when_the_owner_has_moved_what_it_waited_for
    a_forced_drain_replaces_a_member_that_stops_first
    a_drain_waits_for_room_and_takes_nothing_before
    a_drain_without_room_is_blocked_at_its_deadline_and_has_taken_nothing
    a_drain_waits_for_a_member_that_joins
    a_drain_whose_replacement_failed_is_blocked_and_can_be_retried
    no_drain_succeeds_while_a_replacement_is_blocked
    a_drain_that_is_given_up_moves_no_more_members
}

/// Returns an instance with old-first replacement, with one unit on the far node.
async fn old_first(rig: &mut Rig) -> (InstanceId, MemberId) {
    let i = rig.instance("i", 0).await;
    let [from, to] = rig.catalog.versions;
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    succeeds(rig, upgrade).await;
    (i, far_unit(rig, i).await)
}

/// Likewise, with new-first replacement.
async fn new_first(rig: &mut Rig) -> (InstanceId, MemberId) {
    let i = rig.instance("i", 0).await;
    (i, far_unit(rig, i).await)
}

async fn far_unit(rig: &mut Rig, i: InstanceId) -> MemberId {
    rig.add_far(4, 16).await;
    cordon(rig, true).await;
    let (unit, add) = rig.add(i).await;
    succeeds(rig, add).await;
    cordon(rig, false).await;
    rig.adapter.did.clear();
    unit
}

async fn drain(rig: &Rig, force: bool) -> OperationId {
    let far = rig.far.as_ref().unwrap().id;
    rig.ask(&DRAIN, "node", far, json!({"force": force})).await
}

/// Asserts that it works as before: its cell, allocation and evidence exist, and its adapter received no step.
async fn untouched(rig: &Rig, unit: MemberId) {
    let member = rig.member(unit).await;
    assert_eq!(member.state, MemberState::Active);
    assert_eq!(rig.allocation(member.allocation_id.unwrap()).await.state, AllocationState::Active);
    let asked: Vec<_> = rig.adapter.did.iter().filter(|(_, name, _)| *name == member.name).collect();
    assert!(asked.is_empty(), "{asked:?}");
}

async fn item(rig: &Rig, drain: OperationId, unit: MemberId) -> Item {
    let items = rig.operation(drain).await.items;
    items.into_iter().find(|item| item.id == unit.to_string()).unwrap()
}

async fn a_replacement_without_room_leaves_the_old_one_alone(rig: &mut Rig) {
    let (i, unit) = old_first(rig).await;
    cordon(rig, true).await;
    // The far node has four GPUs: the unit has one of them.
    rig.unit_gpus = 4;
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    let ended = rig.drive(replace).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("no_capacity")));
    untouched(rig, unit).await;
    assert_eq!(rig.desired(i, "unit").await, 1);
    // Force changes nothing.
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": true})).await;
    assert_eq!(rig.drive(replace).await.state, OperationState::Failed);
    untouched(rig, unit).await;
    assert_eq!(rig.store.operation_count().await.unwrap(), []);
}

async fn the_room_of_a_successor_is_there_before_the_old_one_stops(rig: &mut Rig) {
    let (i, unit) = old_first(rig).await;
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    while rig.member(unit).await.state == MemberState::Active {
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_millis(500));
        }
    }
    let new = rig.units(i).await.into_iter().find(|id| *id != unit).unwrap();
    let new = rig.member(new).await;
    assert_eq!(new.state, MemberState::Requested, "it stops before its successor starts");
    let reserved = rig.allocation(new.allocation_id.unwrap()).await;
    assert_eq!(reserved.state, AllocationState::Active);
    // Another allocation cannot take its reservation.
    let (_, other) = rig.create("other", 7, None).await;
    assert_eq!(rig.drive(other).await.state, OperationState::Succeeded);
    succeeds(rig, replace).await;
    let new = rig.member(new.id).await;
    assert_eq!((new.state, new.allocation_id), (MemberState::Active, Some(reserved.id)));
    let remove = rig.member_op(&member::REMOVE, new.id, json!({"force": false})).await;
    succeeds(rig, remove).await;
    assert_eq!(rig.allocation(reserved.id).await.state, AllocationState::Released, "it goes with its member");
}

async fn a_replacement_that_must_not_stop_the_old_one_first_does_not(rig: &mut Rig) {
    let (_, unit) = old_first(rig).await;
    let replace =
        rig.member_op(&member::REPLACE, unit, json!({"force": false, "successor_first": true})).await;
    let ended = rig.drive(replace).await;
    assert_eq!(ended.state, OperationState::Failed);
    assert!(ended.message.unwrap().contains("would stop before i-unit-2 starts"));
    untouched(rig, unit).await;
}

async fn a_drain_leaves_a_member_where_it_is_that_stops_before_its_successor_starts(rig: &mut Rig) {
    let (_, unit) = old_first(rig).await;
    let drain = drain(rig, false).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    untouched(rig, unit).await;
    let waiting = rig.operation(drain).await;
    assert_eq!(waiting.state, OperationState::Running);
    let reason = waiting.waiting.unwrap();
    assert!(reason.contains("i-unit-1 is replaced old-first") && reason.contains("--force"), "{reason}");
    let of_unit = item(rig, drain, unit).await;
    assert_eq!(of_unit.state, ItemState::Pending);
    assert!(of_unit.message.unwrap().contains("stops before its successor starts"));
    // At its deadline it is blocked, with the same reason, and nothing was removed.
    let blocked = rig.drive(drain).await;
    assert!(why(&blocked).contains("its deadline has passed") && why(&blocked).contains("old-first"));
    untouched(rig, unit).await;
    // An accepted partial drain leaves the node cordoned.
    decide(rig, drain, ResolveAction::AcceptPartial).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Partial);
    untouched(rig, unit).await;
    let far = rig.store.node_lookup(rig.far.as_ref().unwrap().id).await.unwrap().unwrap();
    assert!(far.cordoned && !far.draining);
}

async fn a_drain_goes_on_when_the_owner_has_moved_what_it_waited_for(rig: &mut Rig) {
    let (i, unit) = old_first(rig).await;
    let drain = drain(rig, false).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    rig.turn().await;
    rig.pass(SignedDuration::from_secs(2)).await;
    succeeds(rig, replace).await;
    succeeds(rig, drain).await;
    assert_eq!(item(rig, drain, unit).await.state, ItemState::Succeeded);
    let new = rig.member(rig.units(i).await[0]).await;
    assert_eq!(new.state, MemberState::Active);
    assert_eq!(rig.allocation(new.allocation_id.unwrap()).await.node_id, Some(rig.node.id));
}

async fn a_forced_drain_replaces_a_member_that_stops_first(rig: &mut Rig) {
    let (i, unit) = old_first(rig).await;
    let drain = drain(rig, true).await;
    succeeds(rig, drain).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.member(rig.units(i).await[0]).await.state, MemberState::Active);
}

async fn a_drain_waits_for_room_and_takes_nothing_before(rig: &mut Rig) {
    let (i, unit) = new_first(rig).await;
    cordon(rig, true).await;
    let drain = drain(rig, false).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    untouched(rig, unit).await;
    let of_unit = item(rig, drain, unit).await;
    assert_eq!(of_unit.state, ItemState::Running);
    assert!(of_unit.message.unwrap().contains("waiting in the queue"));
    cordon(rig, false).await;
    // The old one is removed once the new one works, and not before.
    let new = rig.units(i).await.into_iter().find(|id| *id != unit).unwrap();
    while rig.member(unit).await.state == MemberState::Active {
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_millis(500));
        }
    }
    assert_eq!(rig.member(new).await.state, MemberState::Active);
    succeeds(rig, drain).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
}

async fn a_drain_without_room_is_blocked_at_its_deadline_and_has_taken_nothing(rig: &mut Rig) {
    let (i, unit) = new_first(rig).await;
    cordon(rig, true).await;
    let drain = drain(rig, false).await;
    let blocked = rig.drive(drain).await;
    assert!(why(&blocked).contains("1 member could not be moved: i-unit-1: "), "{}", why(&blocked));
    untouched(rig, unit).await;
    let of_unit = item(rig, drain, unit).await;
    assert_eq!(of_unit.state, ItemState::Failed);
    assert!(of_unit.operation_id.is_some() && of_unit.message.is_some());
    // Nothing is left in the queue.
    let count = rig.store.operation_count().await.unwrap();
    assert_eq!(count.len(), 1, "{count:?}");
    // With room it continues where it was.
    cordon(rig, false).await;
    retry(rig, drain).await;
    succeeds(rig, drain).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn a_drain_waits_for_a_member_that_joins(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.add_far(4, 16).await;
    cordon(rig, true).await;
    rig.adapter.silent = true;
    let (unit, add) = rig.add(i).await;
    while rig.member(unit).await.state != MemberState::Joining {
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_millis(500));
        }
    }
    cordon(rig, false).await;
    let drain = drain(rig, false).await;
    rig.pass(SignedDuration::from_secs(3)).await;
    assert_eq!(rig.operation(drain).await.state, OperationState::Running);
    rig.adapter.silent = false;
    succeeds(rig, add).await;
    succeeds(rig, drain).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn a_drain_whose_replacement_failed_is_blocked_and_can_be_retried(rig: &mut Rig) {
    let (i, unit) = new_first(rig).await;
    rig.adapter.cannot(AdapterVerb::Join);
    let drain = drain(rig, false).await;
    let began = rig.env.now();
    let blocked = rig.drive(drain).await;
    assert!(rig.env.now() < began + SignedDuration::from_secs(40), "it did not wait for its deadline");
    assert_eq!(blocked.reason.as_deref(), Some("some_failed"));
    assert!(why(&blocked).contains("1 member could not be moved: i-unit-1: "), "{}", why(&blocked));
    untouched(rig, unit).await;
    laws::hold(rig).await;
    rig.adapter.fails.clear();
    retry(rig, drain).await;
    succeeds(rig, drain).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn no_drain_succeeds_while_a_replacement_is_blocked(rig: &mut Rig) {
    let (i, unit) = old_first(rig).await;
    rig.adapter.cannot(AdapterVerb::Join);
    let drain = drain(rig, true).await;
    // The old one was removed first, and the new one cannot join.
    let replace = loop {
        rig.pass(SignedDuration::from_secs(1)).await;
        let children = rig.store.operation_children(drain).await.unwrap();
        if let Some(child) = children.iter().find(|child| child.state == OperationState::Blocked) {
            break child.id;
        }
    };
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    rig.pass(SignedDuration::from_secs(5)).await;
    let waiting = rig.operation(drain).await;
    assert_eq!(waiting.state, OperationState::Running);
    assert!(waiting.waiting.unwrap().starts_with(&format!("{replace} (member.replace) is blocked")));
    let of_unit = item(rig, drain, unit).await;
    assert_eq!((of_unit.state, of_unit.operation_id), (ItemState::Blocked, Some(replace)));
    // An empty node at the deadline is no success either.
    let blocked = rig.drive(drain).await;
    assert!(why(&blocked).contains("nothing is left on it, but"), "{}", why(&blocked));
    assert!(why(&blocked).contains(&replace.to_string()), "{}", why(&blocked));
    // Its reservation is kept for every retry.
    rig.adapter.fails.clear();
    retry(rig, replace).await;
    succeeds(rig, replace).await;
    retry(rig, drain).await;
    succeeds(rig, drain).await;
    assert_eq!(item(rig, drain, unit).await.state, ItemState::Succeeded);
    assert_eq!(rig.member(rig.units(i).await[0]).await.state, MemberState::Active);
}

async fn a_drain_that_is_given_up_moves_no_more_members(rig: &mut Rig) {
    let (_, unit) = new_first(rig).await;
    cordon(rig, true).await;
    let drain = drain(rig, false).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    let replace = part_of(rig, drain, "member.replace").await;
    cancel(rig, drain).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Cancelled);
    assert_eq!(rig.drive(replace).await.state, OperationState::Cancelled);
    cordon(rig, false).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    untouched(rig, unit).await;
    assert_eq!(rig.store.operation_count().await.unwrap(), []);
}
