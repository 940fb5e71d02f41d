//! Every point of every step of every operation: killed there, and gone on from there by another engine; failed; repeated.
//! A point that is never hit makes a test that proves nothing, so each strike is counted, and the counts are a golden file.

use std::collections::BTreeMap;
use std::path::Path;

use muster_ids::OperationId;
use muster_model::node::Capacity;
use muster_model::operation::OperationState;
use muster_model::task::TaskKind;
use muster_node_api::task::{Thing, ThingKind};
use muster_operations::allocation::{CLEAN, RELEASE, RESIZE, RESTART};
use muster_operations::node::{AUDIT, DRAIN, RETIRE};
use muster_operations::{Strike, cell, kill_points};
use muster_testkit::{Database, golden};
use serde_json::json;

use crate::laws;
use crate::node::Wrong;
use crate::rig::Rig;

/// Begins an operation of this kind, on things that are made for it. For an undo, something is arranged to go wrong.
async fn begin(rig: &mut Rig, kind: &str, undoing: bool) -> OperationId {
    match kind {
        "allocation.create" => {
            if undoing {
                rig.node.wrong.push(Wrong::MakesTooLittle);
            }
            rig.create("a", 2, None).await.1
        }
        "allocation.release" => {
            let id = rig.active("a", 2).await;
            // With a cell in it, which goes with it and leaves its logs.
            let (_, made) = rig.cell(id, "c").await;
            assert_eq!(rig.drive(made).await.state, OperationState::Succeeded);
            rig.ask(&RELEASE, "allocation", id, json!({})).await
        }
        "allocation.restart" => {
            let id = rig.active("a", 2).await;
            rig.ask(&RESTART, "allocation", id, json!({})).await
        }
        "allocation.resize" => {
            let id = rig.active("a", 2).await;
            // More of one thing and less of another: both halves of a resize have something to do.
            let target = Capacity { gpus: 1, cpus: 4, memory_mb: 2048, disk_mb: 512 };
            let target = if undoing { Capacity { gpus: 4, ..target } } else { target };
            if undoing {
                // Three tries, each done twice where everything is.
                let times = if rig.node.repeats { 6 } else { 3 };
                rig.node.wrong.extend(std::iter::repeat_n(Wrong::Fails(TaskKind::Resize), times));
            }
            rig.ask(&RESIZE, "allocation", id, json!({"capacity": target})).await
        }
        "allocation.clean" => {
            let id = rig.active("a", 2).await;
            let made = rig.node.places.remove(&id);
            let mut tx = rig.store.begin().await.unwrap();
            tx.slot_quarantine_of(id, "test", rig.world.now()).await.unwrap();
            tx.commit().await.unwrap();
            rig.node.places.extend(made.map(|made| (id, made)));
            let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
            assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
            rig.ask(&CLEAN, "allocation", id, json!({})).await
        }
        "cell.create" => {
            let allocation = rig.active("a", 2).await;
            if undoing {
                // Each look is made twice where everything is.
                let times = if rig.node.repeats { 2 } else { 1 };
                rig.node.wrong.extend(std::iter::repeat_n(Wrong::HidesCell, times));
            }
            rig.cell(allocation, "c").await.1
        }
        "cell.restart" => {
            let id = rig.running("c").await;
            rig.ask(&cell::RESTART, "cell", id, json!({})).await
        }
        "cell.destroy" => {
            let id = rig.running("c").await;
            rig.ask(&cell::DESTROY, "cell", id, json!({})).await
        }
        "node.audit" => {
            rig.running("c").await;
            let name = "/a/stray".to_owned();
            let stray =
                Thing { kind: ThingKind::Mount, name, allocation_id: None, cell_id: None, network_id: None };
            rig.node.strays.push(stray);
            rig.ask(&AUDIT, "node", rig.node.id, json!({"mend": true})).await
        }
        "node.drain" => {
            let id = rig.active("a", 2).await;
            let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({"force": true})).await;
            if undoing {
                rig.engine.round().await.unwrap();
                let mut tx = rig.store.begin().await.unwrap();
                tx.operation_cancel(drain, rig.world.now()).await.unwrap();
                tx.commit().await.unwrap();
            }
            let _ = id;
            drain
        }
        "node.retire" => {
            let mut tx = rig.store.begin().await.unwrap();
            tx.node_set_draining(rig.node.id, false, true, rig.world.now()).await.unwrap();
            tx.commit().await.unwrap();
            rig.ask(&RETIRE, "node", rig.node.id, json!({})).await
        }
        other => panic!("the harness does not know {other}: teach it"),
    }
}

fn expected(kind: &str, undoing: bool) -> OperationState {
    match (kind, undoing) {
        (_, false) => OperationState::Succeeded,
        ("node.drain", true) => OperationState::Cancelled,
        (_, true) => OperationState::Failed,
    }
}

fn parts(point: &str) -> (&str, bool) {
    let (kind, rest) = point.split_once('/').unwrap();
    (kind, rest.starts_with('-'))
}

async fn settle(rig: &Rig) {
    laws::hold(rig).await;
    assert_eq!(rig.store.operation_count().await.unwrap(), [], "something is left under way");
}

async fn killed(database: fn() -> Database) -> BTreeMap<String, u64> {
    let mut struck = BTreeMap::new();
    let mut rig = Rig::new(database()).await;
    for point in kill_points() {
        let (kind, undoing) = parts(&point);
        rig.reset().await;
        let id = begin(&mut rig, kind, undoing).await;
        rig.kill_at(&point);
        let engine = rig.engine.clone();
        let ended = rig.drive(id).await;
        assert_eq!(engine.points.struck(), 1, "{point} was never hit");
        assert_eq!(ended.state, expected(kind, undoing), "killed at {point}: {ended:#?}");
        settle(&rig).await;
        *struck.entry(point).or_insert(0) += engine.points.struck();
    }
    struck
}

fn blessed(counts: &[BTreeMap<String, u64>]) {
    let mut text = String::from(
        "# Every point at which an engine is killed, and how often the harness struck there (SQLite, PostgreSQL).\n",
    );
    for point in kill_points() {
        let each: Vec<String> =
            counts.iter().map(|count| count.get(&point).copied().unwrap_or(0).to_string()).collect();
        text.push_str(&format!("{point} {}\n", each.join(" ")));
    }
    golden(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/kill_points.txt"), &text);
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_an_engine_killed_at_any_point_is_gone_on_from_by_another() {
    let (sqlite, postgres) =
        tokio::join!(tokio::spawn(killed(Database::sqlite)), tokio::spawn(killed(Database::postgres)));
    blessed(&[sqlite.unwrap(), postgres.unwrap()]);
}

/// Every step, and every undo, refused before it did anything: what can be undone is undone, and the rest is parked and goes
/// on when it is retried.
async fn failed(database: fn() -> Database) {
    let mut rig = Rig::new(database()).await;
    for point in kill_points().into_iter().filter(|point| point.ends_with(":before")) {
        let (kind, undoing) = parts(&point);
        rig.reset().await;
        let id = begin(&mut rig, kind, undoing).await;
        rig.engine.points.arm(&point, Strike::Refuse, 1);
        let engine = rig.engine.clone();
        let mut ended = drive_on(&mut rig, id).await;
        assert_eq!(engine.points.struck(), 1, "{point} was never hit");
        if ended == OperationState::Parked {
            crate::stories::retry(&rig, id).await;
            ended = drive_on(&mut rig, id).await;
        }
        let fine = [OperationState::Succeeded, OperationState::Failed, expected(kind, undoing)];
        assert!(fine.contains(&ended), "refused at {point}: {ended}");
        settle(&rig).await;
    }
}

/// Drives without taking a refusal for a death.
async fn drive_on(rig: &mut Rig, id: OperationId) -> OperationState {
    rig.drive_with(id, false).await.state
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_and_every_undo_can_fail() {
    let (sqlite, postgres) =
        tokio::join!(tokio::spawn(failed(Database::sqlite)), tokio::spawn(failed(Database::postgres)));
    sqlite.unwrap();
    postgres.unwrap();
}

/// Every task done twice and reported twice: the second report is refused, and nothing happens twice.
async fn repeated(database: fn() -> Database) {
    for definition in muster_operations::KINDS {
        for undoing in [false, true] {
            if undoing
                && !kill_points().iter().any(|point| point.starts_with(&format!("{}/-", definition.kind)))
            {
                continue;
            }
            let mut rig = Rig::new(database()).await;
            rig.node.repeats = true;
            let id = begin(&mut rig, definition.kind, undoing).await;
            let ended = rig.drive(id).await;
            assert_eq!(ended.state, expected(definition.kind, undoing), "{} repeated", definition.kind);
            assert!(rig.node.refused > 0, "no second report was refused");
            settle(&rig).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_task_can_be_done_and_reported_twice() {
    let (sqlite, postgres) =
        tokio::join!(tokio::spawn(repeated(Database::sqlite)), tokio::spawn(repeated(Database::postgres)));
    sqlite.unwrap();
    postgres.unwrap();
}

/// The agent killed before and after the effect of every kind of task.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_before_or_after_any_effect_is_gone_on_from() {
    let cases = [
        ("allocation.create", false, vec![TaskKind::Prepare, TaskKind::Inspect]),
        ("allocation.create", true, vec![TaskKind::Destroy, TaskKind::Wipe]),
        ("allocation.release", false, vec![TaskKind::Destroy, TaskKind::Inspect, TaskKind::Wipe]),
        ("allocation.restart", false, vec![TaskKind::Destroy, TaskKind::Prepare]),
        ("allocation.resize", false, vec![TaskKind::Resize, TaskKind::Wipe]),
        ("cell.create", false, vec![TaskKind::CellCreate, TaskKind::CellInspect]),
        ("cell.create", true, vec![TaskKind::CellDestroy]),
        ("cell.restart", false, vec![TaskKind::KeepLogs, TaskKind::CellDestroy, TaskKind::CellCreate]),
        ("cell.destroy", false, vec![TaskKind::KeepLogs, TaskKind::CellDestroy, TaskKind::CellInspect]),
        ("node.audit", false, vec![TaskKind::Survey, TaskKind::Sweep]),
        ("node.retire", false, vec![TaskKind::Survey]),
    ];
    for (kind, undoing, tasks) in cases {
        for task in tasks {
            for wrong in [Wrong::DiesBefore(task), Wrong::DiesAfter(task)] {
                let mut rig = Rig::new(Database::sqlite()).await;
                let id = begin(&mut rig, kind, undoing).await;
                rig.node.wrong.push(wrong);
                let before = rig.node.struck;
                let ended = rig.drive(id).await;
                assert!(rig.node.struck > before, "{wrong:?} was never hit");
                assert_eq!(ended.state, expected(kind, undoing), "{kind} {wrong:?}");
                settle(&rig).await;
            }
        }
    }
}

/// The same point again and again: every look at every step finds what is there.
#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_dies_at_every_look_still_gets_there() {
    for kind in ["allocation.create", "allocation.release", "allocation.restart", "allocation.resize"] {
        let mut rig = Rig::new(Database::sqlite()).await;
        let id = begin(&mut rig, kind, false).await;
        let mut deaths = 0;
        let points: Vec<String> = kill_points().into_iter().filter(|point| point.starts_with(kind)).collect();
        loop {
            for point in points.iter().filter(|point| !point.ends_with(":before") && !point.contains("/-")) {
                rig.kill_at(point);
            }
            let engine = rig.engine.clone();
            let operation = rig.operation(id).await;
            if operation.state.is_final() || deaths > 60 {
                break;
            }
            rig.engine.round().await.unwrap();
            rig.node.serve(&rig.store, rig.world.now()).await;
            if engine.points.struck() > 0 {
                deaths += 1;
                // One look in three is let through, or before_commit would never let anything happen.
                rig.replace_engine().await;
                if deaths % 2 == 0 {
                    rig.engine.round().await.unwrap();
                }
            }
            rig.clock.advance(jiff::SignedDuration::from_millis(300));
        }
        let operation = rig.drive(id).await;
        assert!(deaths > 3, "{kind}: it hardly died");
        assert_eq!(operation.state, OperationState::Succeeded, "{kind} after {deaths} deaths");
        settle(&rig).await;
    }
}
