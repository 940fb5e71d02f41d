//! Members with dead cells: every verb works on them, by the proof of their death and never by silence.

use jiff::SignedDuration;
use muster_engine::{instance, member};
use muster_ids::{InstanceId, MemberId};
use muster_model::adapter::AdapterVerb;
use muster_model::instance::InstanceState;
use muster_model::member::{MemberFailure, MemberState};
use muster_model::operation::{OperationState, StepState};
use muster_model::witness::{Witness, WitnessKind};
use muster_testkit::Database;
use serde_json::json;

use crate::laws;
use crate::member_stories::{cordon, on_a_lost_node, succeeds, why};
use crate::node::Wrong;
use crate::rig::{Rig, TIMING};
use crate::stories::retry;

stories! {
    an_instance_whose_hub_is_dead_is_decommissioned
    an_instance_whose_hub_is_dead_is_decommissioned_by_force
    an_instance_on_a_rebooted_node_is_decommissioned
    a_forced_decommission_takes_over_from_one_that_is_blocked
    a_dead_member_is_drained_by_the_proof_of_its_death
    a_dead_member_is_removed
    a_dead_member_is_replaced
    a_dead_hub_is_replaced
    a_dead_member_is_recovered
    an_adapter_that_says_nothing_of_a_dead_member_is_not_waited_for
    an_adapter_that_cannot_drain_a_dead_member_blocks_nothing
    a_cell_that_only_seems_to_be_missing_is_not_dead
    a_dead_cell_never_makes_a_member_active
    a_cell_that_dies_before_it_is_verified_fails_its_member
    an_unreachable_node_proves_no_death
    a_forced_decommission_needs_no_adapter
    a_forced_decommission_is_not_held_up_by_one_that_lies
    a_forced_removal_goes_on_without_an_adapter_that_fails
    dead_member_is_kept_while_a_live_hub_lists_it
    an_operation_that_succeeds_in_the_end_tells_no_old_failure
}

/// Kills the cell of a member.
pub(crate) async fn kill(rig: &mut Rig, id: MemberId) {
    let cell = rig.member(id).await.cell_id.unwrap();
    let nodes = [Some(&mut rig.node), rig.far.as_mut()];
    let node = nodes.into_iter().flatten().find(|node| node.cells.contains_key(&cell));
    node.unwrap().kill(cell);
}

async fn drained_by(rig: &Rig, id: MemberId) -> Witness {
    let id = rig.member(id).await.drained_witness_id.unwrap();
    rig.store.witness_lookup(id).await.unwrap().unwrap()
}

async fn removed_by(rig: &Rig, id: MemberId) -> Witness {
    let id = rig.member(id).await.removed_witness_id.unwrap();
    rig.store.witness_lookup(id).await.unwrap().unwrap()
}

async fn is_stopped(rig: &Rig, i: InstanceId) {
    let stopped = rig.app_instance(i).await;
    assert_eq!(stopped.state, InstanceState::Stopped);
    let witness = rig.store.witness_lookup(stopped.stopped_witness_id.unwrap()).await.unwrap().unwrap();
    assert_eq!(witness.kind, WitnessKind::Witnessed, "nobody attested anything");
    assert!(rig.node.sandboxes.is_empty() && rig.node.cells.is_empty() && rig.node.dirty.is_empty());
}

async fn an_instance_whose_hub_is_dead_is_decommissioned(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let (hub, units) = (rig.hub(i).await, rig.units(i).await);
    kill(rig, hub).await;
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
    is_stopped(rig, i).await;
    assert_eq!(removed_by(rig, hub).await.kind, WitnessKind::Lost);
    assert_eq!(drained_by(rig, hub).await.kind, WitnessKind::Lost);
    for unit in units {
        // Its own cell was alive: checks that could not run are listed as such.
        let drained = drained_by(rig, unit).await;
        assert_eq!(drained.kind, WitnessKind::Witnessed);
        let checked = drained.checked.as_array().unwrap();
        assert!(
            checked.iter().any(|entry| entry["not_checked"] == json!("every cell of hub is dead")),
            "{checked:#?}"
        );
        assert_eq!(removed_by(rig, unit).await.kind, WitnessKind::Witnessed);
    }
}

async fn an_instance_whose_hub_is_dead_is_decommissioned_by_force(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let hub = rig.hub(i).await;
    kill(rig, hub).await;
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({"force": true}), false).await;
    succeeds(rig, stop).await;
    is_stopped(rig, i).await;
}

async fn an_instance_on_a_rebooted_node_is_decommissioned(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let units = rig.units(i).await;
    rig.node.reboot();
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
    is_stopped(rig, i).await;
    assert_eq!(drained_by(rig, units[0]).await.kind, WitnessKind::Lost);
}

async fn a_forced_decommission_takes_over_from_one_that_is_blocked(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    rig.adapter.cannot(AdapterVerb::Drain);
    let first = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    assert!(rig.operation(first).await.waiting.unwrap().contains("blocked"));
    rig.node.reboot();
    let second = rig.instance_op(&instance::DECOMMISSION, i, json!({"force": true}), true).await;
    succeeds(rig, second).await;
    is_stopped(rig, i).await;
}

async fn a_dead_member_is_drained_by_the_proof_of_its_death(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    kill(rig, unit).await;
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    succeeds(rig, drain).await;
    let witness = drained_by(rig, unit).await;
    assert_eq!((rig.member(unit).await.state, witness.kind), (MemberState::Drained, WitnessKind::Lost));
    assert_eq!(witness.node_id, Some(rig.node.id), "it says by whose agent");
    let own = &witness.checked[0];
    assert_eq!((&own["lost"], &own["incarnation"], &own["processes"]), (&json!(true), &json!(1), &json!(0)));
    assert_eq!(own["boot_id"], json!("boot"));
}

async fn a_dead_member_is_removed(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let (unit, hub) = (rig.units(i).await[0], rig.hub(i).await);
    kill(rig, unit).await;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    succeeds(rig, remove).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.known(unit).await, None, "the hub was told to forget it, and was asked");
    assert_eq!(removed_by(rig, unit).await.kind, WitnessKind::Witnessed);
    assert_eq!(rig.member(hub).await.state, MemberState::Active);
}

async fn a_dead_member_is_replaced(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    kill(rig, unit).await;
    let replace = rig.member_op(&member::REPLACE, unit, json!({"force": false})).await;
    succeeds(rig, replace).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Removed);
    assert_eq!(rig.desired(i, "unit").await, 1);
}

async fn a_dead_hub_is_replaced(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let hub = rig.hub(i).await;
    kill(rig, hub).await;
    let replace = rig.member_op(&member::REPLACE, hub, json!({"force": false})).await;
    succeeds(rig, replace).await;
    assert_eq!(rig.member(hub).await.state, MemberState::Removed);
    assert_eq!(removed_by(rig, hub).await.kind, WitnessKind::Lost);
    assert_eq!(rig.desired(i, "hub").await, 1);
}

async fn a_dead_member_is_recovered(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    for id in [rig.units(i).await[0], rig.hub(i).await] {
        kill(rig, id).await;
        let recover = rig.member_op(&member::RECOVER, id, json!({})).await;
        succeeds(rig, recover).await;
        let member = rig.member(id).await;
        assert_eq!((member.state, member.incarnation), (MemberState::Active, 2));
        assert!(rig.node.runs(member.cell_id.unwrap()));
    }
}

async fn an_adapter_that_says_nothing_of_a_dead_member_is_not_waited_for(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    kill(rig, unit).await;
    rig.adapter.silent = true;
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Draining, "it has its time");
    succeeds(rig, drain).await;
    let step = rig.operation(drain).await.step("drain").unwrap().clone();
    assert_eq!(step.output["adapter"], json!("skipped"));
    assert_eq!(drained_by(rig, unit).await.kind, WitnessKind::Lost);
}

async fn an_adapter_that_cannot_drain_a_dead_member_blocks_nothing(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    rig.adapter.cannot(AdapterVerb::Drain);
    // While its cell lives, the adapter's report counts.
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    assert_eq!(rig.drive(drain).await.state, OperationState::Failed);
    assert_eq!(rig.member(unit).await.state, MemberState::Active);
    kill(rig, unit).await;
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    succeeds(rig, remove).await;
}

async fn a_cell_that_only_seems_to_be_missing_is_not_dead(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    // The agent does not find it, and counted nothing.
    rig.node.wrong.extend(std::iter::repeat_n(Wrong::HidesCell, 100));
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    let blocked = rig.drive(drain).await;
    assert!(why(&blocked).contains("not verified dead"), "{}", why(&blocked));
    assert_eq!(rig.member(unit).await.state, MemberState::Draining);
    rig.node.wrong.clear();
    retry(rig, drain).await;
    succeeds(rig, drain).await;
    assert_eq!(drained_by(rig, unit).await.kind, WitnessKind::Witnessed);
}

async fn a_dead_cell_never_makes_a_member_active(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    succeeds(rig, drain).await;
    kill(rig, unit).await;
    let resume = rig.member_op(&member::RESUME, unit, json!({})).await;
    let ended = rig.drive(resume).await;
    assert_ne!(ended.state, OperationState::Succeeded);
    assert_ne!(rig.member(unit).await.state, MemberState::Active);
    // The database itself rejects it.
    for statement in [
        "UPDATE witnesses SET kind = 'lost' WHERE transition = 'active'",
        "UPDATE witnesses SET kind = 'lost' WHERE transition = 'running'",
        "UPDATE witnesses SET kind = 'attested', actor_id = 'usr_x' WHERE transition = 'drained'",
    ] {
        assert!(rig.store.sabotage(statement).await.is_err(), "{statement}");
    }
    if ended.state == OperationState::Blocked {
        let remove = rig.member_op_with(&member::REMOVE, unit, json!({"force": true}), true).await;
        succeeds(rig, remove).await;
    }
}

/// There is nothing to decide: the addition is rolled back, and the member can be recovered.
async fn a_cell_that_dies_before_it_is_verified_fails_its_member(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let (unit, add) = rig.add(i).await;
    while rig.operation(add).await.step("join").is_none_or(|step| step.state != StepState::Running) {
        if !rig.turn().await {
            rig.pass(SignedDuration::from_millis(500)).await;
        }
    }
    kill(rig, unit).await;
    let ended = rig.drive(add).await;
    assert_eq!(
        (ended.state, ended.reason.as_deref()),
        (OperationState::Failed, Some("cell_ended")),
        "{ended:#?}"
    );
    let failed = rig.member(unit).await;
    assert_eq!((failed.state, failed.failure_reason), (MemberState::Failed, Some(MemberFailure::CellEnded)));
    let recover = rig.member_op(&member::RECOVER, unit, json!({})).await;
    succeeds(rig, recover).await;
    assert_eq!(rig.member(unit).await.state, MemberState::Active);
}

async fn an_unreachable_node_proves_no_death(rig: &mut Rig) {
    let (i, unit) = on_a_lost_node(rig).await;
    kill(rig, unit).await;
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    rig.pass(SignedDuration::from_secs(30)).await;
    assert_eq!(rig.app_instance(i).await.state, InstanceState::Stopping);
    assert!(rig.member(unit).await.drained_witness_id.is_none(), "nobody looked at it");
    let far = rig.far.as_mut().unwrap();
    far.reachable = true;
    let id = far.id;
    let mut tx = rig.store.begin().await.unwrap();
    assert!(tx.node_back(id, rig.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    succeeds(rig, stop).await;
    assert_eq!(drained_by(rig, unit).await.kind, WitnessKind::Lost);
    cordon(rig, false).await;
}

async fn a_forced_decommission_needs_no_adapter(rig: &mut Rig) {
    for fails in [true, false] {
        let i = rig.instance("i", 2).await;
        match fails {
            true => rig.adapter.cannot(AdapterVerb::Remove),
            false => rig.adapter.silent = true,
        }
        let began = rig.env.now();
        let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({"force": true}), false).await;
        succeeds(rig, stop).await;
        is_stopped(rig, i).await;
        rig.adapter.fails.clear();
        // It is given a task's time for each component, and then not waited for.
        let bound = if fails { TIMING.task } else { TIMING.task * 3 };
        let took = rig.env.now().duration_since(began);
        assert!(took < bound, "{took}");
    }
}

async fn a_forced_decommission_is_not_held_up_by_one_that_lies(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let units = rig.units(i).await;
    rig.adapter.lies.extend([AdapterVerb::Remove, AdapterVerb::Drain]);
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({"force": true}), false).await;
    rig.pass(SignedDuration::from_secs(5)).await;
    assert_eq!(rig.member(units[0]).await.state, MemberState::Removing, "the hub still knows it");
    let hub = rig.hub(i).await;
    assert_eq!(rig.member(hub).await.state, MemberState::Active, "and has not begun to go");
    succeeds(rig, stop).await;
    is_stopped(rig, i).await;
}

async fn a_forced_removal_goes_on_without_an_adapter_that_fails(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    rig.adapter.cannot(AdapterVerb::Remove);
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": true})).await;
    // The adapter is not waited for, but the hub still has it: that prevents the removal.
    let blocked = rig.drive(remove).await;
    assert!(why(&blocked).contains("check 0 (/bin/test -e /members/i-unit-1"), "{}", why(&blocked));
    rig.adapter.fails.clear();
    let again = rig.member_op_with(&member::REMOVE, unit, json!({"force": true}), true).await;
    succeeds(rig, again).await;
}

async fn dead_member_is_kept_while_a_live_hub_lists_it(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    kill(rig, unit).await;
    rig.adapter.lies.insert(AdapterVerb::Remove);
    let remove = rig.member_op(&member::REMOVE, unit, json!({"force": false})).await;
    let blocked = rig.drive(remove).await;
    assert!(why(&blocked).contains("in i-hub-1"), "{}", why(&blocked));
    // With the hub dead too, nothing depends on it.
    let hub = rig.hub(i).await;
    kill(rig, hub).await;
    retry(rig, remove).await;
    succeeds(rig, remove).await;
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    succeeds(rig, stop).await;
}

async fn an_operation_that_succeeds_in_the_end_tells_no_old_failure(rig: &mut Rig) {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    rig.adapter.lies.insert(AdapterVerb::Drain);
    let drain = rig.member_op(&member::DRAIN, unit, json!({})).await;
    let blocked = rig.drive(drain).await;
    assert_eq!(blocked.reason.as_deref(), Some("not_witnessed"));
    rig.adapter.lies.clear();
    retry(rig, drain).await;
    let running = rig.operation(drain).await;
    assert_eq!((running.reason, running.message), (None, None), "it is tried again");
    succeeds(rig, drain).await;
    let ended = rig.operation(drain).await;
    assert_eq!((ended.reason, ended.message), (None, None));
}
