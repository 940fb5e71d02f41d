//! Conflicting commands: an upgrade with commands during it, a removal of a member that is not added yet, a resume of one
//! being removed.

use jiff::SignedDuration;
use muster_engine::{Definition, instance, member};
use muster_ids::{InstanceId, MemberId, OperationId};
use muster_model::adapter::AdapterVerb;
use muster_model::cell::CellState;
use muster_model::member::{MemberFailure, MemberState};
use muster_model::operation::{OperationKind, OperationState, ResolveAction};
use muster_model::task::TaskKind;
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::{part_of, succeeds, why};
use crate::node::Wrong;
use crate::rig::Rig;
use crate::stories::decide;

stories! {
    a_rollback_takes_over_a_cell_that_did_not_get_ready
    a_rollback_ends_the_parts_of_an_upgrade_that_had_not_begun
    an_upgrade_leaves_the_orders_alone_that_came_after_it
    a_resume_that_is_blocked_can_be_given_up
    replaced_member_is_not_resumed
    unjoined_member_is_subtracted_once_when_it_fails_during_its_removal
    unjoined_member_is_subtracted_once_when_a_scale_removes_it
    a_member_of_a_component_that_the_release_has_not_is_removed
    a_recovery_that_fails_keeps_what_its_member_keeps
    drained_member_stays_drained_through_upgrade_and_rollback
}

/// Moves an instance to the other release, by an upgrade or a rollback.
async fn roll(rig: &Rig, definition: &'static Definition, i: InstanceId, takes_over: bool) -> OperationId {
    let [one, two] = rig.catalog.versions;
    let (from, to) = if definition.kind == OperationKind::InstanceRollback { (two, one) } else { (one, two) };
    rig.instance_op(definition, i, json!({"app_version_id": to, "from": from}), takes_over).await
}

async fn drained(rig: &mut Rig, unit: MemberId) {
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    succeeds(rig, drain).await;
}

async fn a_rollback_takes_over_a_cell_that_did_not_get_ready(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    rig.node.wrong.extend([Wrong::Fails(TaskKind::CellCreate); 3]);
    let upgrade = roll(rig, &instance::UPGRADE, i, false).await;
    let blocked = rig.drive(upgrade).await;
    assert!(why(&blocked).contains("its deadline has passed"), "{}", why(&blocked));
    let part = part_of(rig, upgrade, "member.upgrade").await;
    let restart = part_of(rig, part, "cell.restart").await;
    assert_eq!(rig.operation(restart).await.state, OperationState::Blocked);
    let rollback = roll(rig, &instance::ROLLBACK, i, true).await;
    succeeds(rig, rollback).await;
    assert_eq!(rig.operation(restart).await.state, OperationState::Superseded);
    let first = rig.catalog.versions[0];
    for member in rig.store.member_living(i).await.unwrap() {
        assert_eq!((member.state, member.app_version_id), (MemberState::Active, Some(first)));
    }
    assert_eq!(rig.store.operation_count().await.unwrap(), []);
}

async fn a_rollback_ends_the_parts_of_an_upgrade_that_had_not_begun(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let upgrade = roll(rig, &instance::UPGRADE, i, false).await;
    // The hub is done, and the children of the units are open: the members are unchanged.
    while rig.store.operation_children(upgrade).await.unwrap().len() < 2 {
        rig.turn().await;
    }
    // No engine runs these before the rollback is done.
    let late = "UPDATE operations SET due_at = deadline_at WHERE kind = 'member.upgrade'";
    rig.store.sabotage(late).await.unwrap();
    let rollback = roll(rig, &instance::ROLLBACK, i, true).await;
    succeeds(rig, rollback).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    let first = rig.catalog.versions[0];
    for member in rig.store.member_living(i).await.unwrap() {
        let is = (member.state, member.app_version_id);
        assert_eq!(
            is,
            (MemberState::Active, Some(first)),
            "{} was rolled on behind the rollback",
            member.name
        );
    }
    assert_eq!(rig.store.operation_count().await.unwrap(), []);
}

async fn an_upgrade_leaves_the_orders_alone_that_came_after_it(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let units = rig.units(i).await;
    let upgrade = roll(rig, &instance::UPGRADE, i, false).await;
    rig.turn().await;
    let remove = rig.member_op(&member::REMOVE, units[0], json!({"force": false})).await;
    let drain = rig.member_op(&member::DRAIN, units[1], json!({})).await;
    succeeds(rig, upgrade).await;
    for order in [remove, drain] {
        assert_ne!(rig.operation(order).await.state, OperationState::Superseded, "it was swallowed");
        succeeds(rig, order).await;
    }
    assert_eq!(rig.member(units[0]).await.state, MemberState::Removed);
    assert_eq!(rig.member(units[1]).await.state, MemberState::Drained);
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn a_resume_that_is_blocked_can_be_given_up(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    drained(rig, unit).await;
    rig.adapter.lies.insert(AdapterVerb::Resume);
    let resume = rig.member_op(&member::RESUME, unit, json!({})).await;
    let blocked = rig.drive(resume).await;
    assert!(blocked.blocked.as_ref().unwrap().actions.contains(&ResolveAction::Abandon), "{blocked:#?}");
    decide(rig, resume, ResolveAction::Abandon).await;
    assert_eq!(rig.drive(resume).await.state, OperationState::Cancelled);
    let member = rig.member(unit).await;
    let is = (member.state, member.failure_reason);
    assert_eq!(is, (MemberState::Failed, Some(MemberFailure::NotWitnessed)), "nobody knows whether it works");
    laws::hold(rig).await;
    rig.adapter.lies.clear();
    let recover = rig.member_op(&member::RECOVER, unit, json!({})).await;
    succeeds(rig, recover).await;
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn replaced_member_is_not_resumed(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    drained(rig, unit).await;
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    rig.turn().await;
    let resume = rig.member_op(&member::RESUME, unit, json!({})).await;
    succeeds(rig, replace).await;
    rig.adapter.did.clear();
    let ended = rig.drive(resume).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("invalid_state")));
    assert_eq!(rig.adapter.did, [], "nobody is asked to put back what is gone");
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
}

async fn unjoined_member_is_subtracted_once_when_it_fails_during_its_removal(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.adapter.cannot(AdapterVerb::Join);
    let (unit, add) = rig.add(i).await;
    rig.turn().await;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    assert_eq!(rig.desired(i, "unit").await, 0, "its removal counted it out");
    assert_eq!(rig.drive(add).await.state, OperationState::Failed);
    assert_eq!(rig.desired(i, "unit").await, 0);
    succeeds(rig, remove).await;
    assert_eq!(rig.desired(i, "unit").await, 0);
}

async fn unjoined_member_is_subtracted_once_when_a_scale_removes_it(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.adapter.fails.push((AdapterVerb::Join, "unit-1".to_owned()));
    let (unit, add) = rig.add(i).await;
    rig.turn().await;
    let scale = rig.scale(i, unit).await;
    assert_eq!(rig.drive(add).await.state, OperationState::Failed);
    assert_eq!(rig.desired(i, "unit").await, 1, "one came for the one that goes");
    succeeds(rig, scale).await;
    assert_eq!((rig.desired(i, "unit").await, rig.units(i).await.len()), (1, 1));
}

async fn a_member_of_a_component_that_the_release_has_not_is_removed(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    rig.failed_unit(i).await;
    // Its component is no longer in the release, and it never ran one that has it.
    rig.store.sabotage("UPDATE members SET component_key = 'past' WHERE state = 'failed'").await.unwrap();
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
}

async fn a_recovery_that_fails_keeps_what_its_member_keeps(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let unit = rig.broken_unit(i).await;
    let cell = rig.member(unit).await.cell_id.unwrap();
    let kept = format!("{}kept", crate::node::STATE);
    rig.node.files.entry(cell).or_default().insert(kept.clone(), "all of it".to_owned());
    rig.adapter.cannot(AdapterVerb::Join);
    let recover = rig.member_op(&member::RECOVER, unit, json!({})).await;
    assert_eq!(rig.drive(recover).await.state, OperationState::Failed);
    let there = |rig: &Rig| rig.node.files.get(&cell).and_then(|files| files.get(&kept)).cloned();
    assert_eq!(there(rig).as_deref(), Some("all of it"), "trying must not wipe it");
    assert_eq!(rig.store.cell_lookup(cell).await.unwrap().unwrap().state, CellState::Running);
    laws::hold(rig).await;
    rig.adapter.fails.clear();
    let recover = rig.member_op(&member::RECOVER, unit, json!({})).await;
    succeeds(rig, recover).await;
    assert_eq!(rig.member(unit).await.cell_id, Some(cell));
    assert_eq!(there(rig).as_deref(), Some("all of it"));
}

async fn drained_member_stays_drained_through_upgrade_and_rollback(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let [first, second] = rig.catalog.versions;
    let units = rig.units(i).await;
    drained(rig, units[0]).await;
    for (definition, runs) in [(&instance::UPGRADE, second), (&instance::ROLLBACK, first)] {
        let operation = roll(rig, definition, i, false).await;
        succeeds(rig, operation).await;
        let (rests, works) = (rig.member(units[0]).await, rig.member(units[1]).await);
        assert_eq!(
            (rests.state, rests.app_version_id),
            (MemberState::Drained, Some(first)),
            "{}",
            definition.kind
        );
        assert_eq!((works.state, works.app_version_id), (MemberState::Active, Some(runs)));
        if runs == second {
            let resume = rig.member_op(&member::RESUME, units[0], json!({})).await;
            let ended = rig.drive(resume).await;
            assert_eq!(ended.state, OperationState::Failed);
            assert!(ended.message.unwrap().contains("replace it"), "it would run what the others do not");
        }
    }
    let resume = rig.member_op(&member::RESUME, units[0], json!({})).await;
    succeeds(rig, resume).await;
}
