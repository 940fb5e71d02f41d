//! Allocations with members and cells in them: released with their contents, kept if an instance needs them, and restarted.

use jiff::SignedDuration;
use muster_engine::allocation::{RELEASE, RESIZE, RESTART, drop_kept, is_kept};
use muster_engine::member;
use muster_ids::{AllocationId, CellId, MemberId, OperationId, TypedId as _};
use muster_model::allocation::{AllocationState, FailureReason};
use muster_model::cell::{Cell, CellState};
use muster_model::member::MemberState;
use muster_model::node::Capacity;
use muster_model::operation::OperationState;
use muster_model::task::TaskKind;
use muster_model::witness::Transition;
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::{succeeds, why};
use crate::node::Wrong;
use crate::rig::Rig;

stories! {
    a_release_that_cascades_removes_the_members_first
    a_member_whose_allocation_is_its_owners_is_removed_with_it
    a_release_that_would_break_an_instance_is_blocked_until_it_is_forced
    a_release_waits_for_the_removal_that_is_under_way_and_counts_once
    a_removal_does_not_wait_for_a_release_that_waits_for_it
    an_expired_allocation_that_is_protected_is_kept_and_says_so
    a_restart_stops_every_cell_and_starts_it_again
    a_member_that_rested_rests_again_after_a_restart
    a_resize_of_gpus_restarts_the_cells_and_one_without_room_stops_none
    a_resize_that_the_node_refuses_leaves_the_cells_running
}

async fn allocation_of(rig: &Rig, id: MemberId) -> AllocationId {
    rig.member(id).await.allocation_id.unwrap()
}

async fn release(rig: &Rig, id: AllocationId, input: serde_json::Value) -> OperationId {
    rig.ask(&RELEASE, "allocation", id, input).await
}

async fn a_release_that_cascades_removes_the_members_first(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let units = rig.units(i).await;
    let id = allocation_of(rig, units[0]).await;
    let release = release(rig, id, json!({"cascade": true})).await;
    succeeds(rig, release).await;
    assert_eq!(rig.allocation(id).await.state, AllocationState::Released);
    let gone = rig.member(units[0]).await;
    assert_eq!((gone.state, gone.allocation_made), (MemberState::Removed, false));
    assert!(gone.drained_witness_id.is_some(), "it was drained, and that was verified");
    assert_eq!(rig.known(units[0]).await, None, "the hub has forgotten it");
    assert_eq!((rig.desired(i, "unit").await, rig.units(i).await), (1, vec![units[1]]));
    assert_eq!(rig.operation(release).await.items, [], "a release is never done in part");
}

async fn a_member_whose_allocation_is_its_owners_is_removed_with_it(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let before = rig.member(unit).await;
    let mut tx = rig.store.begin().await.unwrap();
    let owned = muster_model::member::Member { allocation_made: false, ..before.clone() };
    tx.member_move(&before, &owned, rig.env.now()).await.unwrap();
    tx.commit().await.unwrap();
    let id = allocation_of(rig, unit).await;
    let release = release(rig, id, json!({"cascade": true})).await;
    succeeds(rig, release).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.allocation(id).await.state, AllocationState::Released);
}

async fn a_release_that_would_break_an_instance_is_blocked_until_it_is_forced(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let hub = rig.hub(i).await;
    let id = allocation_of(rig, hub).await;
    let refused = release(rig, id, json!({"cascade": true, "expired": true})).await;
    let blocked = rig.drive(refused).await;
    assert!(is_kept(&blocked), "{blocked:#?}");
    assert!(why(&blocked).contains("i would be broken: hub needs 1 members"), "{}", why(&blocked));
    let kept = rig.allocation(id).await;
    assert_eq!((kept.state, kept.reason), (AllocationState::Active, Some(FailureReason::MembersNeeded)));
    assert_eq!(kept.operation_id, Some(refused));
    assert_eq!((rig.desired(i, "hub").await, rig.member(hub).await.state), (1, MemberState::Active));
    // It can be dropped, because nothing was removed yet.
    let mut tx = rig.store.begin().await.unwrap();
    assert!(drop_kept(&mut tx, refused, "a test", rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(rig.operation(refused).await.state, OperationState::Cancelled);
    let forced = release(rig, id, json!({"cascade": true, "force": true})).await;
    succeeds(rig, forced).await;
    assert_eq!((rig.desired(i, "hub").await, rig.member(hub).await.state), (0, MemberState::Removed));
    let after = rig.allocation(id).await;
    assert_eq!((after.state, after.reason), (AllocationState::Released, None));
}

async fn a_release_waits_for_the_removal_that_is_under_way_and_counts_once(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let unit = rig.units(i).await[0];
    let id = allocation_of(rig, unit).await;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    let release = release(rig, id, json!({"cascade": true})).await;
    succeeds(rig, remove).await;
    let ended = rig.drive(release).await;
    assert!(matches!(ended.state, OperationState::Succeeded | OperationState::Superseded), "{ended:#?}");
    assert_eq!(rig.desired(i, "unit").await, 1, "it was counted out once");
    assert_eq!(rig.allocation(id).await.state, AllocationState::Released);
}

/// Regression, found by the exit walks: of two operations on the allocation, the removal superseded only the newer one, and
/// waited for the older one, which may wait for the removal.
async fn a_removal_does_not_wait_for_a_release_that_waits_for_it(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let unit = rig.units(i).await[0];
    let id = allocation_of(rig, unit).await;
    rig.adapter.silent = true;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    let release = release(rig, id, json!({"cascade": true})).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    let restart = rig.ask(&RESTART, "allocation", id, json!({})).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    for open in [remove, release, restart] {
        let open = rig.operation(open).await;
        assert!(!open.state.is_final(), "{open:#?}");
    }
    rig.adapter.silent = false;
    succeeds(rig, remove).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    for superseded in [release, restart] {
        assert_eq!(rig.operation(superseded).await.state, OperationState::Superseded);
    }
    assert_eq!(rig.allocation(id).await.state, AllocationState::Released);
}

async fn an_expired_allocation_that_is_protected_is_kept_and_says_so(rig: &mut Rig) {
    let id = rig.active("a", 1).await;
    let before = rig.allocation(id).await;
    let mut tx = rig.store.begin().await.unwrap();
    let version = before.version + 1;
    let held = muster_model::allocation::Allocation { protected: true, version, ..before };
    tx.allocation_update(&held).await.unwrap();
    tx.commit().await.unwrap();
    let release = release(rig, id, json!({"cascade": true, "expired": true})).await;
    let blocked = rig.drive(release).await;
    assert!(is_kept(&blocked) && why(&blocked).contains("--protected=false"), "{}", why(&blocked));
    assert_eq!(rig.allocation(id).await.reason, Some(FailureReason::Protected));
    let now = rig.allocation(id).await;
    let mut tx = rig.store.begin().await.unwrap();
    let version = now.version + 1;
    tx.allocation_update(&muster_model::allocation::Allocation { protected: false, version, ..now })
        .await
        .unwrap();
    tx.commit().await.unwrap();
    crate::stories::retry(rig, release).await;
    succeeds(rig, release).await;
    assert_eq!(
        (rig.allocation(id).await.state, rig.allocation(id).await.reason),
        (AllocationState::Released, None)
    );
}

/// Returns an allocation with a unit in it, and a standalone cell.
async fn occupied(rig: &mut Rig) -> (AllocationId, MemberId, CellId) {
    let i = rig.instance("i", 2).await;
    let unit = rig.units(i).await[0];
    let id = allocation_of(rig, unit).await;
    let (cell, made) = rig.cell(id, "c").await;
    succeeds(rig, made).await;
    (id, unit, cell)
}

async fn cell(rig: &Rig, id: CellId) -> Cell {
    rig.store.cell_lookup(id).await.unwrap().unwrap()
}

async fn a_restart_stops_every_cell_and_starts_it_again(rig: &mut Rig) {
    let (id, unit, bare) = occupied(rig).await;
    let (place, member, before) = (rig.allocation(id).await, rig.member(unit).await, cell(rig, bare).await);
    let other = rig.units(member.instance_id).await[1];
    let untouched = rig.member(other).await;
    let restart = rig.ask(&RESTART, "allocation", id, json!({})).await;
    succeeds(rig, restart).await;
    let after = rig.allocation(id).await;
    assert_eq!((after.state, after.incarnation), (AllocationState::Active, place.incarnation + 1));
    let again = cell(rig, bare).await;
    assert_eq!((again.state, again.incarnation), (CellState::Running, before.incarnation + 1));
    assert_ne!(again.running_witness_id, before.running_witness_id, "on new evidence");
    let joined = rig.member(unit).await;
    assert_eq!((joined.state, joined.incarnation), (MemberState::Active, member.incarnation + 1));
    assert_eq!(joined.cell_id, member.cell_id, "the same cell, and so the same state directories");
    let of = cell(rig, joined.cell_id.unwrap()).await;
    assert_eq!((of.state, of.incarnation), (CellState::Running, joined.incarnation));
    assert_eq!(rig.known(unit).await.as_deref(), Some("active"));
    assert_eq!(rig.desired(member.instance_id, "unit").await, 2);
    assert_eq!(rig.member(other).await.version, untouched.version, "a member elsewhere was left alone");
    // The stopped cells were verified as gone before the sandbox was destroyed.
    let witnesses = rig.store.witness_list(bare.uuid()).await.unwrap();
    let gone = witnesses.iter().find(|witness| witness.transition == Transition::Destroyed).unwrap();
    assert_eq!((gone.operation_id, gone.incarnation), (Some(restart), before.incarnation));
}

async fn a_member_that_rested_rests_again_after_a_restart(rig: &mut Rig) {
    let (id, unit, _) = occupied(rig).await;
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    succeeds(rig, drain).await;
    let restart = rig.ask(&RESTART, "allocation", id, json!({})).await;
    succeeds(rig, restart).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Drained);
    assert_eq!(rig.known(unit).await.as_deref(), Some("drained"));
}

async fn a_resize_of_gpus_restarts_the_cells_and_one_without_room_stops_none(rig: &mut Rig) {
    let (id, unit, bare) = occupied(rig).await;
    let (held, before, member) =
        (rig.allocation(id).await.held, cell(rig, bare).await, rig.member(unit).await);
    let too_much = Capacity { gpus: 20, ..held };
    let resize = rig.ask(&RESIZE, "allocation", id, json!({"capacity": too_much, "restart": true})).await;
    let ended = rig.drive(resize).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("no_capacity")));
    assert_eq!(cell(rig, bare).await.version, before.version, "nothing was stopped for it");
    let more = Capacity { gpus: 3, ..held };
    let resize = rig.ask(&RESIZE, "allocation", id, json!({"capacity": more, "restart": true})).await;
    succeeds(rig, resize).await;
    assert_eq!(rig.allocation(id).await.held, more);
    let again = cell(rig, bare).await;
    assert_eq!((again.state, again.incarnation), (CellState::Running, before.incarnation + 1));
    let joined = rig.member(unit).await;
    assert_eq!((joined.state, joined.incarnation), (MemberState::Active, member.incarnation + 1));
    // CPUs and memory change while they run.
    let other = Capacity { cpus: 4, memory_mb: 32, ..more };
    let resize = rig.ask(&RESIZE, "allocation", id, json!({"capacity": other})).await;
    succeeds(rig, resize).await;
    assert_eq!(rig.allocation(id).await.held, other);
    assert_eq!(cell(rig, bare).await.version, again.version, "it ran on");
}

async fn a_resize_that_the_node_refuses_leaves_the_cells_running(rig: &mut Rig) {
    let (id, unit, bare) = occupied(rig).await;
    let (held, before) = (rig.allocation(id).await.held, cell(rig, bare).await);
    rig.node.wrong.extend([Wrong::Fails(TaskKind::Resize); 3]);
    let more = Capacity { gpus: 3, ..held };
    let resize = rig.ask(&RESIZE, "allocation", id, json!({"capacity": more, "restart": true})).await;
    let ended = rig.drive(resize).await;
    assert_eq!(ended.state, OperationState::Failed, "{ended:#?}");
    assert_eq!(rig.allocation(id).await.held, held);
    let again = cell(rig, bare).await;
    assert_eq!((again.state, again.incarnation), (CellState::Running, before.incarnation + 1));
    assert_eq!(rig.member(unit).await.state, MemberState::Active);
}
