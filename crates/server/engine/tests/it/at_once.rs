//! Parallel work that still keeps its order: cells, joins, checks, and removal.

use jiff::SignedDuration;
use muster_engine::{instance, member};
use muster_ids::{MemberId, OperationId};
use muster_model::adapter::AdapterVerb;
use muster_model::cell::CellState;
use muster_model::member::MemberState;
use muster_model::operation::{Operation, OperationState};
use muster_model::task::{Task, TaskKind};
use muster_testkit::Database;
use serde_json::{Value, json};

use crate::laws;
use crate::member_stories::{succeeds, why};
use crate::node::Wrong;
use crate::rig::Rig;
use crate::stories::retry;

stories! {
    all_cells_start_in_parallel_and_no_unit_joins_before_its_hub
    a_hub_that_cannot_join_takes_all_down_and_no_unit_ever_joined
    the_look_and_all_checks_are_asked_at_once_and_all_of_them_count
    a_check_that_held_before_the_one_before_it_did_is_asked_again
    the_hub_goes_when_nothing_counts_on_the_units_whatever_becomes_of_their_cells
    while_something_counts_on_a_unit_the_hub_stays
}

async fn part_on(rig: &Rig, whole: OperationId, member: MemberId) -> Operation {
    let whole = rig.operation(whole).await;
    let item = whole.items.iter().find(|item| item.id == member.to_string()).unwrap();
    rig.operation(item.operation_id.unwrap()).await
}

async fn all_cells_start_in_parallel_and_no_unit_joins_before_its_hub(rig: &mut Rig) {
    rig.adapter.silent = true;
    let (i, create) = rig.launch("i", 2).await;
    rig.pass(SignedDuration::from_secs(20)).await;
    assert_eq!(rig.member(rig.hub(i).await).await.state, MemberState::Joining);
    let units = rig.units(i).await;
    for unit in &units {
        let member = rig.member(*unit).await;
        let cell = rig.store.cell_lookup(member.cell_id.unwrap()).await.unwrap().unwrap();
        assert_eq!((member.state, cell.state), (MemberState::Provisioning, CellState::Running));
        let part = part_on(rig, create, *unit).await;
        assert!(
            rig.store.adapter_step_of(part.id).await.unwrap().is_empty(),
            "nobody is asked to take it in"
        );
        let waits = part.waiting.unwrap();
        assert!(waits.contains("it joins when i-hub-1 is active, which is joining"), "{waits}");
    }
    // The adapter falsely reports that the hub joined: that does not let the units join.
    rig.adapter.silent = false;
    rig.adapter.lies.insert(AdapterVerb::Join);
    rig.pass(SignedDuration::from_secs(10)).await;
    assert_ne!(rig.member(rig.hub(i).await).await.state, MemberState::Active);
    assert!(rig.adapter.did.iter().all(|(_, name, _)| name == "i-hub-1"), "{:?}", rig.adapter.did);
    rig.adapter.lies.clear();
    let blocked = part_on(rig, create, rig.hub(i).await).await;
    assert_eq!(blocked.state, OperationState::Blocked);
    retry(rig, blocked.id).await;
    succeeds(rig, create).await;
    for unit in units {
        assert_eq!(rig.member(unit).await.state, MemberState::Active);
    }
}

async fn a_hub_that_cannot_join_takes_all_down_and_no_unit_ever_joined(rig: &mut Rig) {
    rig.adapter.fails.push((AdapterVerb::Join, "hub".to_owned()));
    let (i, create) = rig.launch("i", 3).await;
    let ended = rig.drive(create).await;
    assert_eq!((ended.state, ended.reason.as_deref()), (OperationState::Failed, Some("below_minimum")));
    assert!(ended.message.unwrap().contains("i-hub-1"));
    assert!(rig.store.member_living(i).await.unwrap().is_empty());
    assert!(rig.node.sandboxes.is_empty() && rig.node.cells.is_empty() && rig.node.dirty.is_empty());
    let joined =
        |(verb, name, _): &&(AdapterVerb, String, i64)| *verb == AdapterVerb::Join && name.contains("unit");
    assert_eq!(rig.adapter.did.iter().find(joined), None);
    assert_eq!(rig.store.operation_count().await.unwrap(), [], "nothing of it is left under way");
}

/// Returns the latest tasks of a step, by their purpose.
async fn asked(rig: &Rig, operation: OperationId, about: &str) -> Vec<Task> {
    let mut tasks = rig.store.task_list(operation).await.unwrap();
    tasks.retain(|task| task.key.split('/').nth(1).is_some_and(|purpose| purpose.starts_with(about)));
    tasks
}

async fn the_look_and_all_checks_are_asked_at_once_and_all_of_them_count(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let hub = rig.hub(i).await;
    let drain = rig.member_op(&member::DRAIN, hub, json!({})).await;
    succeeds(rig, drain).await;
    // The last of its checks fails, and all others pass.
    let cell = rig.member(hub).await.cell_id.unwrap();
    rig.node.files.get_mut(&cell).unwrap().insert("/broken".to_owned(), "yes".to_owned());
    let resume = rig.member_op(&member::RESUME, hub, json!({})).await;
    let blocked = rig.drive(resume).await;
    assert!(
        why(&blocked).contains("check 1 (/bin/test -e /broken, in i-hub-1) does not hold"),
        "{}",
        why(&blocked)
    );
    assert_ne!(rig.member(hub).await.state, MemberState::Active);
    rig.node.files.get_mut(&cell).unwrap().remove("/broken");
    // A check that cannot be run at all does not pass either.
    for _ in 0..3 {
        rig.node.wrong.push(Wrong::Fails(TaskKind::CellProbe));
    }
    retry(rig, resume).await;
    let _ = rig.drive(resume).await;
    rig.node.wrong.clear();
    if rig.operation(resume).await.state == OperationState::Blocked {
        assert_ne!(rig.member(hub).await.state, MemberState::Active);
        retry(rig, resume).await;
    }
    succeeds(rig, resume).await;
    let witness = rig.member(hub).await.active_witness_id.unwrap();
    let witness = rig.store.witness_lookup(witness).await.unwrap().unwrap();
    let checked = witness.checked.as_array().unwrap();
    let numbers: Vec<&Value> = checked.iter().map(|seen| &seen["number"]).collect();
    assert_eq!(numbers, [&Value::Null, &json!(0), &json!(1)], "the look, and each check in its place");
    let mut times = Vec::new();
    for about in ["look", "check 0", "check 1"] {
        times.push(asked(rig, resume, about).await[0].queued_at);
    }
    assert!(times.iter().all(|at| *at == times[0]), "{times:?}");
}

async fn a_check_that_held_before_the_one_before_it_did_is_asked_again(rig: &mut Rig) {
    let i = rig.instance("i", 0).await;
    let hub = rig.hub(i).await;
    let drain = rig.member_op(&member::DRAIN, hub, json!({})).await;
    succeeds(rig, drain).await;
    rig.adapter.lies.insert(AdapterVerb::Resume);
    let resume = rig.member_op(&member::RESUME, hub, json!({})).await;
    // The second passes from the start, the first only after a while.
    let cell = rig.member(hub).await.cell_id.unwrap();
    while asked(rig, resume, "check 0").await.len() < 3 {
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_millis(100));
        }
    }
    assert_eq!(asked(rig, resume, "check 1").await.len(), 1, "its turn has not come");
    rig.node.files.get_mut(&cell).unwrap().insert("/ready".to_owned(), "up".to_owned());
    succeeds(rig, resume).await;
    let last = |tasks: Vec<Task>| tasks.last().map(|task| task.queued_at).unwrap();
    assert!(last(asked(rig, resume, "check 1").await) >= last(asked(rig, resume, "check 0").await));
    assert!(asked(rig, resume, "check 1").await.len() > 1);
}

async fn the_hub_goes_when_nothing_counts_on_the_units_whatever_becomes_of_their_cells(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let (hub, units) = (rig.hub(i).await, rig.units(i).await);
    rig.adapter.did.clear();
    // The node repeatedly fails to destroy a unit's cell.
    for _ in 0..12 {
        rig.node.wrong.push(Wrong::Fails(TaskKind::CellDestroy));
    }
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    for _ in 0..2000 {
        if rig.member(hub).await.state == MemberState::Draining {
            break;
        }
        if !rig.turn().await {
            rig.clock.advance(SignedDuration::from_millis(100));
        }
    }
    assert_eq!(rig.member(hub).await.state, MemberState::Draining, "the hub's turn never came");
    for unit in &units {
        assert_eq!(rig.known(*unit).await, None, "nothing counts on it any more");
        assert_eq!(rig.member(*unit).await.state, MemberState::Removing, "and it is not gone yet");
    }
    rig.node.wrong.clear();
    let mut ended = rig.drive(stop).await;
    while ended.state == OperationState::Blocked {
        for item in &ended.items {
            let part = item.operation_id.unwrap();
            if rig.operation(part).await.state == OperationState::Blocked {
                retry(rig, part).await;
            }
        }
        retry(rig, stop).await;
        ended = rig.drive(stop).await;
    }
    assert_eq!(ended.state, OperationState::Succeeded, "{ended:#?}");
    assert!(rig.node.sandboxes.is_empty() && rig.node.cells.is_empty() && rig.node.dirty.is_empty());
}

async fn while_something_counts_on_a_unit_the_hub_stays(rig: &mut Rig) {
    let i = rig.instance("i", 2).await;
    let hub = rig.hub(i).await;
    // The adapter falsely reports that the hub dropped them.
    rig.adapter.lies.insert(AdapterVerb::Remove);
    let stop = rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await;
    rig.pass(SignedDuration::from_secs(60)).await;
    assert_eq!(rig.member(hub).await.state, MemberState::Active);
    rig.adapter.lies.clear();
    for unit in rig.units(i).await {
        let part = part_on(rig, stop, unit).await;
        if part.state == OperationState::Blocked {
            retry(rig, part.id).await;
        }
    }
    succeeds(rig, stop).await;
}
