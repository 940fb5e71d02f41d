//! Members and instances over their whole life, with adapters that lie, fail, die and stay silent.

use jiff::SignedDuration;
use muster_engine::{Definition, instance, member};
use muster_ids::{InstanceId, MemberId, OperationId};
use muster_model::adapter::{AdapterStepState, AdapterVerb};
use muster_model::allocation::AllocationState;
use muster_model::cell::CellState;
use muster_model::instance::{InstanceFailure, InstanceState};
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{ItemState, Operation, OperationKind, OperationState, ResolveAction};
use muster_model::task::TaskKind;
use muster_model::witness::WitnessKind;
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::node::Wrong;
use crate::rig::Rig;
use crate::stories::{attest, decide, retry};

stories! {
    false_join_report_is_blocked_by_verification
    false_drain_report_is_blocked_by_verification
    false_resume_report_is_blocked_by_verification
    member_still_listed_by_its_hub_keeps_its_cell
    false_join_report_of_a_successor_is_blocked_by_verification
    false_join_report_of_a_recovered_member_is_blocked_by_verification
    false_join_report_of_an_upgraded_member_is_blocked_by_verification
    an_add_whose_join_fails_leaves_nothing_and_wants_nothing
    drain_without_an_adapter_is_blocked_and_rolled_back
    a_removal_that_is_forced_fences_the_drain_before_it
    an_add_during_an_upgrade_waits_and_gets_the_new_release
    an_add_can_be_cancelled_at_every_step
    a_replacement_can_be_cancelled_at_every_step
    a_replacement_whose_old_member_goes_first_can_be_cancelled_at_every_step
    an_upgrade_and_a_rollback_change_what_runs_by_evidence_alone
    an_upgrade_has_the_image_on_the_node_before_the_old_cell_is_stopped
    an_upgrade_whose_image_cannot_be_had_leaves_the_old_cell_working
    a_rollback_takes_over_from_an_upgrade_that_is_stuck
    an_instance_whose_second_component_fails_leaves_nothing
    a_decommission_leaves_nothing_and_the_hub_goes_last
    dead_adapters_step_is_leased_again_and_its_late_report_fenced
    a_member_on_a_lost_node_is_replaced_and_removed_when_the_node_is_back
    a_member_on_a_node_that_never_comes_back_is_removed_on_an_operators_word
    member_in_an_allocation_of_its_owner_never_releases_it
    a_recovery_that_fails_leaves_the_room_that_was_there
    an_abandoned_add_of_many_ends_what_is_blocked_of_it
    a_forced_removal_takes_over_from_a_replacement
    a_forced_replacement_takes_over_from_another
    a_forced_removal_takes_over_from_a_replacement_whose_old_member_goes_first
}

/// Returns why it is blocked.
pub(crate) fn why(operation: &Operation) -> &str {
    assert_eq!(operation.state, OperationState::Blocked, "{operation:#?}");
    &operation.blocked.as_ref().unwrap().reason
}

pub(crate) async fn succeeds(rig: &mut Rig, id: OperationId) {
    let ended = rig.drive(id).await;
    assert_eq!(ended.state, OperationState::Succeeded, "{ended:#?}");
}

pub(crate) async fn cancel(rig: &Rig, id: OperationId) {
    let mut tx = rig.store.begin().await.unwrap();
    tx.operation_cancel(id, rig.env.now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Returns the open child of this kind.
pub(crate) async fn part_of(rig: &Rig, id: OperationId, kind: &str) -> OperationId {
    let children = rig.store.operation_children(id).await.unwrap();
    children.iter().find(|child| child.kind.as_str() == kind && !child.state.is_final()).unwrap().id
}

async fn false_join_report_is_blocked_by_verification(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.adapter.lies.insert(AdapterVerb::Join);
    let (unit, add) = rig.add(i).await;
    let blocked = rig.drive(add).await;
    assert!(why(&blocked).contains("check 0 (/bin/cat /members/i-unit-1, in i-hub-1)"), "{}", why(&blocked));
    let member = rig.member(unit).await;
    assert_eq!((member.state, member.app_version_id), (MemberState::Joining, None));
    rig.adapter.lies.clear();
    retry(rig, add).await;
    succeeds(rig, add).await;
    assert_eq!(rig.member(unit).await.app_version_id, Some(rig.catalog.versions[0]));
}

async fn false_drain_report_is_blocked_by_verification(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    rig.adapter.lies.insert(AdapterVerb::Drain);
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    let blocked = rig.drive(drain).await;
    assert!(why(&blocked).contains("\"active\", which does not match ^drained$"), "{}", why(&blocked));
    assert_eq!(rig.member(unit).await.state, MemberState::Draining);
    // After the rollback it is active by new evidence, not by the old.
    let before = rig.member(unit).await.active_witness_id;
    decide(rig, drain, ResolveAction::Compensate).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Failed);
    let member = rig.member(unit).await;
    assert_eq!(member.state, MemberState::Active);
    assert_ne!(member.active_witness_id, before);
}

async fn false_resume_report_is_blocked_by_verification(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    succeeds(rig, drain).await;
    rig.adapter.lies.insert(AdapterVerb::Resume);
    let resume = rig.member_op(&member::RESUME, unit, json!({})).await;
    let blocked = rig.drive(resume).await;
    assert!(why(&blocked).contains("check 0"), "{}", why(&blocked));
    assert_ne!(rig.member(unit).await.state, MemberState::Active);
    rig.adapter.lies.clear();
    retry(rig, resume).await;
    succeeds(rig, resume).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Active);
}

async fn member_still_listed_by_its_hub_keeps_its_cell(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    // A removed cell is not enough: the hub still has it.
    rig.adapter.lies.insert(AdapterVerb::Remove);
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    let blocked = rig.drive(remove).await;
    assert!(why(&blocked).contains("check 0 (/bin/test -e /members/i-unit-1"), "{}", why(&blocked));
    assert!(
        !blocked.blocked.as_ref().unwrap().actions.contains(&ResolveAction::Compensate),
        "there is no way back"
    );
    let member = rig.member(unit).await;
    assert_eq!(member.state, MemberState::Removing);
    let cell = rig.store.cell_lookup(member.cell_id.unwrap()).await.unwrap().unwrap();
    assert_eq!(cell.state, CellState::Running, "its cell went before anybody had forgotten it");
    rig.adapter.lies.clear();
    retry(rig, remove).await;
    succeeds(rig, remove).await;
    let member = rig.member(unit).await;
    let witness = rig.store.witness_lookup(member.removed_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((member.state, witness.kind), (MemberState::Removed, WitnessKind::Witnessed));
    assert_eq!(rig.desired(i, "unit").await, 0);
}

async fn false_join_report_of_a_successor_is_blocked_by_verification(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    rig.adapter.lies.insert(AdapterVerb::Join);
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    // Its child is blocked, and it waits for that until its own deadline.
    let blocked = rig.drive(replace).await;
    assert!(why(&blocked).contains("check 0"), "{}", why(&blocked));
    assert_eq!(rig.member(unit).await.state, MemberState::Active, "the old one works until the new one does");
    rig.adapter.lies.clear();
    let add = part_of(rig, replace, "member.add").await;
    retry(rig, add).await;
    retry(rig, replace).await;
    succeeds(rig, replace).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!((rig.desired(i, "unit").await, rig.units(i).await.len()), (1, 1));
}

async fn false_join_report_of_a_recovered_member_is_blocked_by_verification(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let unit = rig.failed_unit(i).await;
    assert_eq!(rig.desired(i, "unit").await, 0);
    rig.adapter.lies.insert(AdapterVerb::Join);
    let recover = rig.member_op(&member::RECOVER, unit, json!({})).await;
    let blocked = rig.drive(recover).await;
    assert!(why(&blocked).contains("check 0"), "{}", why(&blocked));
    rig.adapter.lies.clear();
    retry(rig, recover).await;
    succeeds(rig, recover).await;
    assert_eq!(rig.desired(i, "unit").await, 1, "it counts again");
}

async fn false_join_report_of_an_upgraded_member_is_blocked_by_verification(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    rig.adapter.lies.insert(AdapterVerb::Join);
    let [from, to] = rig.catalog.versions;
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    let blocked = rig.drive(upgrade).await;
    assert!(why(&blocked).contains("check 0 (/bin/cat /ready, in i-hub-1)"), "{}", why(&blocked));
    let living = rig.store.member_living(i).await.unwrap();
    assert!(living.iter().all(|member| member.app_version_id == Some(from)), "nothing was seen to run it");
    rig.adapter.lies.clear();
    let part = part_of(rig, upgrade, "member.upgrade").await;
    retry(rig, part).await;
    retry(rig, upgrade).await;
    succeeds(rig, upgrade).await;
}

async fn an_add_whose_join_fails_leaves_nothing_and_wants_nothing(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    rig.adapter.cannot(AdapterVerb::Join);
    let (unit, add) = rig.add(i).await;
    assert_eq!(rig.desired(i, "unit").await, 2, "raised when it is accepted");
    let ended = rig.drive(add).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("adapter_failed")));
    let member = rig.member(unit).await;
    assert_eq!(
        (member.state, member.failure_reason),
        (MemberState::Failed, Some(MemberFailure::AdapterFailed))
    );
    assert_eq!(member.message.as_deref(), Some("refuses: it cannot"), "it is the adapter's own word");
    assert_eq!(rig.desired(i, "unit").await, 1, "and lowered again");
    assert!(
        rig.adapter.did.iter().any(|(verb, name, _)| *verb == AdapterVerb::Leave && *name == member.name)
    );
    assert_eq!(rig.node.cells.len(), 2);
}

async fn drain_without_an_adapter_is_blocked_and_rolled_back(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let before = rig.member(unit).await.active_witness_id;
    rig.adapter.silent = true;
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    let blocked = rig.drive(drain).await;
    assert!(why(&blocked).contains("no adapter has leased it"), "{}", why(&blocked));
    let actions = &blocked.blocked.as_ref().unwrap().actions;
    assert!(actions.contains(&ResolveAction::Retry) && actions.contains(&ResolveAction::Compensate));
    decide(rig, drain, ResolveAction::Compensate).await;
    rig.turn().await;
    // It comes back late: cancelled steps are not offered.
    rig.adapter.silent = false;
    rig.adapter.did.clear();
    assert_eq!(rig.drive(drain).await.state, OperationState::Failed);
    let verbs: Vec<AdapterVerb> = rig.adapter.did.iter().map(|(verb, _, _)| *verb).collect();
    assert_eq!(verbs, [AdapterVerb::Resume]);
    let member = rig.member(unit).await;
    assert_eq!(member.state, MemberState::Active);
    assert_ne!(member.active_witness_id, before, "it is active by new evidence");
    assert_eq!(rig.known(unit).await.as_deref(), Some("active"));
}

async fn a_removal_that_is_forced_fences_the_drain_before_it(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    rig.adapter.dies_after = Some(AdapterVerb::Drain);
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    while rig.adapter.died_with.is_empty() {
        rig.turn().await;
    }
    let remove = rig.member_op_with(&member::REMOVE, unit, json!({"force": true}), true).await;
    assert_eq!(rig.operation(drain).await.state, OperationState::Superseded);
    // The report of the previous holder is rejected.
    let step = rig.adapter.died_with.remove(0);
    let now = rig.env.now();
    rig.adapter.end(&rig.store.clone(), &step, AdapterStepState::Done, now).await;
    assert_eq!(rig.adapter.refused, 1);
    succeeds(rig, remove).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.desired(i, "unit").await, 0);
}

async fn an_add_during_an_upgrade_waits_and_gets_the_new_release(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let [from, to] = rig.catalog.versions;
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    rig.turn().await;
    let (unit, add) = rig.add(i).await;
    rig.turn().await;
    let waiting = rig.operation(add).await;
    assert_eq!(waiting.state, OperationState::Accepted);
    assert!(waiting.waiting.unwrap().contains(&upgrade.to_string()));
    succeeds(rig, upgrade).await;
    succeeds(rig, add).await;
    assert_eq!(rig.member(unit).await.app_version_id, Some(to), "it is what the instance runs now");
    // Two adds do not wait for each other.
    let ((_, one), (_, two)) = (rig.add(i).await, rig.add(i).await);
    rig.turn().await;
    for id in [one, two] {
        assert_ne!(rig.operation(id).await.state, OperationState::Accepted);
    }
    succeeds(rig, one).await;
    succeeds(rig, two).await;
}

async fn an_add_can_be_cancelled_at_every_step(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let mut cancelled = 0;
    for looks in 0.. {
        let (unit, add) = rig.add(i).await;
        for _ in 0..looks {
            rig.turn().await;
        }
        if rig.operation(add).await.state.is_final() {
            break;
        }
        cancel(rig, add).await;
        let ended = rig.drive(add).await;
        let member = rig.member(unit).await;
        if ended.state == OperationState::Succeeded {
            assert_eq!(member.state, MemberState::Active, "past the point of no return");
            laws::hold(rig).await;
            continue;
        }
        assert_eq!(ended.state, OperationState::Cancelled, "after {looks} looks: {ended:#?}");
        assert_eq!(
            (member.state, member.failure_reason),
            (MemberState::Failed, Some(MemberFailure::Cancelled))
        );
        assert_eq!(rig.known(unit).await, None, "after {looks} looks the hub still knows it");
        laws::hold(rig).await;
        assert_eq!(rig.store.operation_count().await.unwrap(), [], "after {looks} looks");
        cancelled += 1;
    }
    assert!(cancelled > 8, "it was hardly ever cancelled: {cancelled}");
}

/// Cancels a replacement after each pass over it; returns how often the old member was kept and how often removed.
async fn cancel_replacements(rig: &mut Rig, i: InstanceId) -> (usize, usize) {
    let (mut kept, mut gone) = (0, 0);
    for looks in 0.. {
        let unit = match rig.units(i).await.into_iter().rev().collect::<Vec<_>>() {
            units if active(rig, &units).await.is_some() => active(rig, &units).await.unwrap(),
            _ => {
                let (unit, add) = rig.add(i).await;
                succeeds(rig, add).await;
                unit
            }
        };
        let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
        for _ in 0..looks {
            rig.turn().await;
        }
        if rig.operation(replace).await.state.is_final() {
            break;
        }
        cancel(rig, replace).await;
        let ended = rig.drive(replace).await;
        let fine = matches!(ended.state, OperationState::Cancelled | OperationState::Succeeded);
        assert!(fine, "after {looks} looks: {ended:#?}");
        if ended.state == OperationState::Cancelled {
            match rig.member(unit).await.state {
                MemberState::Active => kept += 1,
                MemberState::Removed => gone += 1,
                state => panic!("after {looks} looks the old one is {state}"),
            }
        }
        laws::hold(rig).await;
        assert_eq!(rig.store.operation_count().await.unwrap(), [], "after {looks} looks");
    }
    (kept, gone)
}

pub(crate) async fn active(rig: &Rig, units: &[MemberId]) -> Option<MemberId> {
    for id in units {
        if rig.member(*id).await.state == MemberState::Active {
            return Some(*id);
        }
    }
    None
}

async fn a_replacement_can_be_cancelled_at_every_step(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let (kept, gone) = cancel_replacements(rig, i).await;
    assert!(kept > 8 && gone == 0, "{kept} {gone}: the old one stays until the new one works");
}

async fn a_replacement_whose_old_member_goes_first_can_be_cancelled_at_every_step(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let [from, to] = rig.catalog.versions;
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    succeeds(rig, upgrade).await;
    let (kept, gone) = cancel_replacements(rig, i).await;
    assert!(kept > 0 && gone > 3, "{kept} {gone}: what is on its way out goes");
}

async fn an_upgrade_has_the_image_on_the_node_before_the_old_cell_is_stopped(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let [from, to] = rig.catalog.versions;
    rig.node.done.clear();
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    succeeds(rig, upgrade).await;
    for member in rig.store.member_living(i).await.unwrap() {
        let cell = member.cell_id.unwrap();
        let first = |kind| rig.node.done.iter().position(|done| *done == (kind, Some(cell)));
        let pulled = first(TaskKind::ImagePull).unwrap();
        assert!(pulled < first(TaskKind::CellDestroy).unwrap(), "{:?}", rig.node.done);
        let made = rig.node.done.iter().filter(|done| **done == (TaskKind::ImagePull, Some(cell)));
        assert_eq!(made.count(), 1);
    }
}

async fn an_upgrade_whose_image_cannot_be_had_leaves_the_old_cell_working(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let [from, to] = rig.catalog.versions;
    let before = rig.store.member_living(i).await.unwrap();
    rig.node.done.clear();
    rig.adapter.did.clear();
    rig.node.wrong.push(Wrong::Refuses(TaskKind::ImagePull));
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    let blocked = rig.drive(upgrade).await;
    assert!(why(&blocked).contains("it can never do that"), "{}", why(&blocked));
    let after = rig.store.member_living(i).await.unwrap();
    let facts = |all: &[Member]| {
        all.iter().map(|member| (member.id, member.state, member.incarnation)).collect::<Vec<_>>()
    };
    assert_eq!(facts(&after), facts(&before), "nothing was taken out of work");
    assert!(!rig.node.done.iter().any(|(kind, _)| *kind == TaskKind::CellDestroy), "{:?}", rig.node.done);
    assert!(rig.adapter.did.is_empty(), "{:?}", rig.adapter.did);
    let part = part_of(rig, upgrade, "member.upgrade").await;
    retry(rig, part).await;
    retry(rig, upgrade).await;
    succeeds(rig, upgrade).await;
}

async fn an_upgrade_and_a_rollback_change_what_runs_by_evidence_alone(rig: &mut Rig) {
    let i = rig.instance("i", 3).await;
    let [from, to] = rig.catalog.versions;
    for (definition, from, to) in [(&instance::UPGRADE, from, to), (&instance::ROLLBACK, to, from)] {
        let before = rig.store.member_living(i).await.unwrap();
        let operation =
            rig.instance_op(definition, i, json!({"app_version_id": to, "from": from}), false).await;
        let mut most = 0;
        while !rig.operation(operation).await.state.is_final() {
            if !rig.turn().await {
                rig.clock.advance(SignedDuration::from_millis(500));
            }
            let now = rig.store.member_living(i).await.unwrap();
            for (member, old) in now.iter().zip(&before) {
                let changed = member.app_version_id == Some(to);
                assert!(!changed || member.active_witness_id != old.active_witness_id, "without evidence");
                assert_eq!(changed, member.app_version_id != Some(from));
            }
            let hub = now.iter().find(|member| member.component_key == "hub").unwrap();
            let out = now.iter().filter(|member| member.state != MemberState::Active).count();
            assert!(hub.app_version_id == Some(to) || out <= 1, "the hub comes first");
            most = most.max(out);
        }
        assert_eq!(most, 2, "as many at once as its pace allows, and no more");
        let ended = rig.operation(operation).await;
        assert_eq!(ended.state, OperationState::Succeeded);
        assert_eq!(ended.items.len(), 4);
        assert!(ended.items.iter().all(|item| item.state == ItemState::Succeeded), "{:#?}", ended.items);
        let instance = rig.app_instance(i).await;
        assert_eq!((instance.app_version_id, instance.previous_version_id), (to, Some(from)));
        laws::hold(rig).await;
    }
}

async fn a_rollback_takes_over_from_an_upgrade_that_is_stuck(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let [from, to] = rig.catalog.versions;
    rig.adapter.fails.push((AdapterVerb::Join, "unit-2".to_owned()));
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    assert_eq!(rig.drive(upgrade).await.state, OperationState::Blocked);
    rig.adapter.fails.clear();
    let rollback =
        rig.instance_op(&instance::ROLLBACK, i, json!({"app_version_id": from, "from": to}), true).await;
    succeeds(rig, rollback).await;
    let living = rig.store.member_living(i).await.unwrap();
    assert_eq!(living.len(), 3);
    for member in living {
        assert_eq!(
            (member.state, member.app_version_id),
            (MemberState::Active, Some(from)),
            "{}",
            member.name
        );
    }
    assert_eq!(rig.store.operation_count().await.unwrap(), [], "nothing of the upgrade is left under way");
}

async fn an_instance_whose_second_component_fails_leaves_nothing(rig: &mut Rig) {
    rig.adapter.fails.push((AdapterVerb::Join, "unit".to_owned()));
    let (i, create) = rig.launch("i", 2).await;
    let ended = rig.drive(create).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("below_minimum")));
    let instance = rig.app_instance(i).await;
    assert_eq!(
        (instance.state, instance.reason),
        (InstanceState::Failed, Some(InstanceFailure::BelowMinimum))
    );
    assert!(rig.store.member_living(i).await.unwrap().is_empty());
    assert!(rig.node.sandboxes.is_empty() && rig.node.cells.is_empty() && rig.node.dirty.is_empty());
    assert!(
        ended.items.iter().any(|item| item.message.as_deref().is_some_and(|why| why.contains("it cannot")))
    );
    // It is decommissioned like any other.
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
    assert_eq!(rig.app_instance(i).await.state, InstanceState::Stopped);
}

async fn a_decommission_leaves_nothing_and_the_hub_goes_last(rig: &mut Rig) {
    let i = rig.instance("i", 3).await;
    rig.adapter.did.clear();
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    let ended = rig.drive(stop).await;
    assert_eq!(ended.state, OperationState::Succeeded);
    assert!(ended.items.iter().all(|item| item.state == ItemState::Succeeded), "{:#?}", ended.items);
    let instance = rig.app_instance(i).await;
    let witness = rig.store.witness_lookup(instance.stopped_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((instance.state, witness.kind), (InstanceState::Stopped, WitnessKind::Witnessed));
    assert!(rig.node.sandboxes.is_empty() && rig.node.cells.is_empty() && rig.node.dirty.is_empty());
    assert!(rig.node.files.is_empty());
    let removed: Vec<&str> = rig
        .adapter
        .did
        .iter()
        .filter(|(verb, _, _)| *verb == AdapterVerb::Remove)
        .map(|(_, name, _)| name.as_str())
        .collect();
    assert_eq!((removed.len(), removed.last()), (4, Some(&"i-hub-1")));
    assert_eq!(rig.store.quota_lookup(rig.project.id).await.unwrap().used_allocations, 0);
    // Its name is free again.
    rig.instance("i", 0).await;
}

async fn dead_adapters_step_is_leased_again_and_its_late_report_fenced(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.adapter.dies_after = Some(AdapterVerb::Join);
    rig.adapter.did.clear();
    let (unit, add) = rig.add(i).await;
    succeeds(rig, add).await;
    let joins: Vec<i64> = rig.adapter.did.iter().map(|(_, _, generation)| *generation).collect();
    assert_eq!(joins, [1, 2], "another had it after it, under a higher generation");
    let (step, now) = (rig.adapter.died_with.remove(0), rig.env.now());
    rig.adapter.end(&rig.store.clone(), &step, AdapterStepState::Failed, now).await;
    assert_eq!(rig.adapter.refused, 1, "what it says now, nobody hears");
    assert_eq!(rig.member(unit).await.state, MemberState::Active);
}

/// Returns a unit on a node of its own that has become unreachable.
pub(crate) async fn on_a_lost_node(rig: &mut Rig) -> (InstanceId, MemberId) {
    let i = rig.instance("i", 0).await;
    rig.add_far(2, 8).await;
    cordon(rig, true).await;
    let (unit, add) = rig.add(i).await;
    succeeds(rig, add).await;
    cordon(rig, false).await;
    let far = rig.far.as_mut().unwrap();
    assert_eq!(far.cells.len(), 1);
    far.reachable = false;
    let id = far.id;
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_lost(id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    (i, unit)
}

pub(crate) async fn cordon(rig: &Rig, cordoned: bool) {
    let mut tx = rig.store.begin().await.unwrap();
    tx.node_set_draining(rig.node.id, false, cordoned, rig.env.now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Replaces it; its removal stays open.
pub(crate) async fn replaced(rig: &mut Rig, i: InstanceId, unit: MemberId) -> OperationId {
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    succeeds(rig, replace).await;
    let old = rig.member(unit).await;
    assert_eq!((old.state, old.fenced), (MemberState::Removing, true), "it is cut off, and not gone");
    let new = active(rig, &rig.units(i).await).await.unwrap();
    assert!(rig.node.cells.contains_key(&rig.member(new).await.cell_id.unwrap()));
    assert_eq!(rig.desired(i, "unit").await, 1);
    part_of(rig, replace, "member.remove").await
}

async fn a_member_on_a_lost_node_is_replaced_and_removed_when_the_node_is_back(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let remove = replaced(rig, i, unit).await;
    rig.pass(SignedDuration::from_secs(10)).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removing, "on nobody's word");
    let far = rig.far.as_mut().unwrap();
    far.reachable = true;
    let id = far.id;
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_back(id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    succeeds(rig, remove).await;
    let member = rig.member(unit).await;
    let witness = rig.store.witness_lookup(member.removed_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((member.state, witness.kind), (MemberState::Removed, WitnessKind::Witnessed));
    let far = rig.far.as_ref().unwrap();
    assert!(far.sandboxes.is_empty() && far.cells.is_empty() && far.dirty.is_empty());
}

async fn a_member_on_a_node_that_never_comes_back_is_removed_on_an_operators_word(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    let remove = replaced(rig, i, unit).await;
    let release = loop {
        rig.pass(SignedDuration::from_secs(1)).await;
        let children = rig.store.operation_children(remove).await.unwrap();
        if let Some(release) = children.iter().find(|child| child.kind == OperationKind::AllocationRelease) {
            break release.id;
        }
    };
    assert_eq!(
        rig.drive(release).await.state,
        OperationState::Blocked,
        "it is not released on nobody's word"
    );
    let allocation = rig.member(unit).await.allocation_id.unwrap();
    let word = attest(rig, allocation).await;
    retry(rig, release).await;
    succeeds(rig, release).await;
    if rig.drive(remove).await.state == OperationState::Blocked {
        retry(rig, remove).await;
        succeeds(rig, remove).await;
    }
    let member = rig.member(unit).await;
    let witness = rig.store.witness_lookup(member.removed_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!((member.state, witness.kind), (MemberState::Removed, WitnessKind::Attested));
    assert_eq!(witness.actor_id.as_deref(), Some("usr_operator"), "it says on whose word");
    assert_eq!(rig.allocation(allocation).await.wiped_witness_id, Some(word));
    // An attestation for one member makes the whole instance attested.
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
    let stopped = rig.app_instance(i).await.stopped_witness_id.unwrap();
    assert_eq!(rig.store.witness_lookup(stopped).await.unwrap().unwrap().kind, WitnessKind::Attested);
    // It never returns: it cannot be inspected.
    rig.far = None;
}

async fn member_in_an_allocation_of_its_owner_never_releases_it(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let held = rig.active("mine", 2).await;
    for fails in [true, false] {
        let (unit, add) = rig.add(i).await;
        let member = rig.member(unit).await;
        let named = muster_model::member::Member { allocation_id: Some(held), ..member.clone() };
        let mut tx = rig.store.begin().await.unwrap();
        tx.member_move(&member, &named, rig.env.now()).await.unwrap();
        tx.commit().await.unwrap();
        if fails {
            rig.adapter.cannot(AdapterVerb::Join);
            assert_eq!(rig.drive(add).await.state, OperationState::Failed);
            rig.adapter.fails.clear();
        } else {
            succeeds(rig, add).await;
            let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
            succeeds(rig, remove).await;
        }
        assert_eq!(rig.allocation(held).await.state, AllocationState::Active);
        assert!(rig.node.sandboxes.contains_key(&held));
        laws::hold(rig).await;
    }
}

async fn a_recovery_that_fails_leaves_the_room_that_was_there(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let unit = rig.broken_unit(i).await;
    let before = rig.member(unit).await;
    rig.adapter.cannot(AdapterVerb::Join);
    let recover = rig.member_op(&member::RECOVER, unit, json!({})).await;
    assert_eq!(rig.drive(recover).await.state, OperationState::Failed);
    assert_eq!(rig.member(unit).await.state, MemberState::Failed);
    let held = rig.allocation(before.allocation_id.unwrap()).await;
    assert_eq!(held.state, AllocationState::Active, "what it keeps there is not lost by trying");
    laws::hold(rig).await;
    rig.adapter.fails.clear();
    let recover = rig.member_op(&member::RECOVER, unit, json!({})).await;
    succeeds(rig, recover).await;
    let after = rig.member(unit).await;
    assert_eq!((after.state, after.allocation_id), (MemberState::Active, before.allocation_id));
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn an_abandoned_add_of_many_ends_what_is_blocked_of_it(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.adapter.lies.insert(AdapterVerb::Join);
    let (units, add) = rig.add_many(i, 3).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    assert!(rig.operation(add).await.waiting.unwrap().contains("3 are blocked"));
    cancel(rig, add).await;
    assert_eq!(rig.drive(add).await.state, OperationState::Cancelled);
    for unit in units {
        assert_eq!(rig.member(unit).await.state, MemberState::Failed);
    }
    assert_eq!(rig.desired(i, "unit").await, 0);
}

/// Supersedes a replacement after every other pass over it; nothing of it may be left, and every remaining member is
/// desired.
async fn take_over_replacements(rig: &mut Rig, i: InstanceId, definition: &'static Definition) {
    for looks in (0..).step_by(2) {
        let (unit, add) = rig.add(i).await;
        succeeds(rig, add).await;
        let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
        for _ in 0..looks {
            rig.turn().await;
        }
        if rig.operation(replace).await.state.is_final() {
            assert!(looks > 8, "there was hardly anything to take over from");
            break;
        }
        let newer = rig.member_op_with(definition, unit, json!({"force": true}), true).await;
        assert_eq!(rig.operation(replace).await.state, OperationState::Superseded);
        succeeds(rig, newer).await;
        rig.pass(SignedDuration::from_secs(5)).await;
        assert_eq!(rig.member(unit).await.state, MemberState::Removed);
        assert_eq!(rig.store.operation_count().await.unwrap(), [], "after {looks} looks");
        laws::hold(rig).await;
        // Make room for the next.
        for left in rig.units(i).await {
            let remove = rig.member_op(&member::REMOVE, left, json!({"force": true})).await;
            succeeds(rig, remove).await;
        }
    }
}

async fn a_forced_removal_takes_over_from_a_replacement(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    take_over_replacements(rig, i, &member::REMOVE).await;
}

async fn a_forced_replacement_takes_over_from_another(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    take_over_replacements(rig, i, &member::REPLACE).await;
}

async fn a_forced_removal_takes_over_from_a_replacement_whose_old_member_goes_first(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let [from, to] = rig.catalog.versions;
    let upgrade =
        rig.instance_op(&instance::UPGRADE, i, json!({"app_version_id": to, "from": from}), false).await;
    succeeds(rig, upgrade).await;
    take_over_replacements(rig, i, &member::REMOVE).await;
}
