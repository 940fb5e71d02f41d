//! Every point of every step of every operation: killed there and continued by another engine; failed; repeated. A point
//! that is never hit makes a test that proves nothing, so each strike is counted, and the counts are a golden file.
//!
//! SQLite strikes at every point. PostgreSQL strikes at a third of them, chosen by `MUSTER_SEED`: three successive seeds cover
//! all, and `MUSTER_SEED=all` (in `make soak`) does at once.

use std::collections::BTreeMap;
use std::path::Path;

use muster_engine::allocation::{CLEAN, RELEASE, RESIZE, RESTART};
use muster_engine::node::{AUDIT, DRAIN, RETIRE};
use muster_engine::{Strike, cell, instance, kill_points, member, members};
use muster_ids::{AllocationId, OperationId};
use muster_model::adapter::AdapterVerb;
use muster_model::node::Capacity;
use muster_model::operation::OperationState;
use muster_model::task::TaskKind;
use muster_testkit::{Database, golden};
use muster_wire::task::{NodeResource, NodeResourceKind};
use serde_json::json;

use crate::laws;
use crate::node::Wrong;
use crate::rig::Rig;
use crate::sample::{is_sampled, seed};

/// Opens an operation of this kind on new subjects. For an undo, a failure is arranged.
async fn begin(rig: &mut Rig, kind: &str, undoing: bool) -> OperationId {
    match kind {
        "allocation.create" => {
            if undoing {
                rig.node.wrong.push(Wrong::MakesTooLittle);
            }
            rig.create("a", 2, None).await.1
        }
        "allocation.release" => {
            // With a member in it, which is removed first, and a standalone cell, which is destroyed with it and leaves its
            // logs.
            let id = occupied(rig).await;
            rig.ask(&RELEASE, "allocation", id, json!({"cascade": true})).await
        }
        "allocation.restart" => {
            let id = occupied(rig).await;
            rig.ask(&RESTART, "allocation", id, json!({})).await
        }
        "allocation.resize" => {
            rig.unit_gpus = 2;
            let id = occupied(rig).await;
            // More of one resource and less of another: both halves of a resize have work.
            let target = Capacity { gpus: 1, cpus: 4, memory_mb: 2048, disk_mb: 512 };
            let target = if undoing { Capacity { gpus: 4, ..target } } else { target };
            if undoing {
                // Three attempts, each run twice when tasks repeat.
                let times = if rig.node.repeats { 6 } else { 3 };
                rig.node.wrong.extend(std::iter::repeat_n(Wrong::Fails(TaskKind::Resize), times));
            }
            rig.ask(&RESIZE, "allocation", id, json!({"capacity": target, "restart": true})).await
        }
        "allocation.clean" => {
            let id = rig.active("a", 2).await;
            let made = rig.node.sandboxes.remove(&id);
            let mut tx = rig.store.begin().await.unwrap();
            tx.slot_quarantine_of(id, "test", rig.env.now()).await.unwrap();
            tx.commit().await.unwrap();
            rig.node.sandboxes.extend(made.map(|made| (id, made)));
            let release = rig.ask(&RELEASE, "allocation", id, json!({})).await;
            assert_eq!(rig.drive(release).await.state, OperationState::Succeeded);
            rig.ask(&CLEAN, "allocation", id, json!({})).await
        }
        "cell.create" => {
            let allocation = rig.active("a", 2).await;
            if undoing {
                // Each inspection runs twice when tasks repeat.
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
            let stray = NodeResource {
                kind: NodeResourceKind::Mount,
                name,
                allocation_id: None,
                cell_id: None,
                network_id: None,
            };
            rig.node.strays.push(stray);
            rig.ask(&AUDIT, "node", rig.node.id, json!({"repair": true})).await
        }
        "node.drain" => {
            let id = rig.active("a", 2).await;
            let drain = rig.ask(&DRAIN, "node", rig.node.id, json!({"force": true})).await;
            if undoing {
                rig.engine.round().await.unwrap();
                cancel(rig, drain).await;
            }
            let _ = id;
            drain
        }
        "node.retire" => {
            let mut tx = rig.store.begin().await.unwrap();
            tx.node_set_draining(rig.node.id, false, true, rig.env.now()).await.unwrap();
            tx.commit().await.unwrap();
            rig.ask(&RETIRE, "node", rig.node.id, json!({})).await
        }
        _ => begin_app(rig, kind, undoing).await,
    }
}

/// Returns an allocation with a member in it, and a standalone cell.
async fn occupied(rig: &mut Rig) -> AllocationId {
    let i = rig.instance("i", 1).await;
    let unit = rig.units(i).await[0];
    let id = rig.member(unit).await.allocation_id.unwrap();
    let (_, made) = rig.cell(id, "c").await;
    assert_eq!(rig.drive(made).await.state, OperationState::Succeeded);
    id
}

/// Like `begin`, for members and instances.
async fn begin_app(rig: &mut Rig, kind: &str, undoing: bool) -> OperationId {
    if kind == "instance.create" {
        if undoing {
            rig.adapter.fails.push((AdapterVerb::Join, "unit".to_owned()));
        }
        return rig.launch("i", 2).await.1;
    }
    let (noun, verb) = kind.split_once('.').unwrap();
    let several = noun == "members";
    let units = match (noun, verb) {
        (_, "add" | "recover") => 0,
        // More than may be out of work at once.
        ("members", _) => 3,
        ("instance", _) => 2,
        _ => 1,
    };
    let i = rig.instance("i", units).await;
    let units = rig.units(i).await;
    let operation = match kind {
        "member.add" => rig.add(i).await.1,
        "member.drain" => rig.member_op(&member::DRAIN, units[0], json!({})).await,
        "member.resume" => {
            let drain = rig.member_op(&member::DRAIN, units[0], json!({})).await;
            assert_eq!(rig.drive(drain).await.state, OperationState::Succeeded);
            rig.member_op(&member::RESUME, units[0], json!({})).await
        }
        "member.remove" => rig.member_op(&member::REMOVE, units[0], json!({"force": false})).await,
        "member.replace" => rig.member_op(&member::REPLACE, units[0], json!({"force": false})).await,
        "member.recover" => {
            // One with its allocation, and one without: the first for the undo, the second for the creation.
            let unit = match undoing {
                true => rig.broken_unit(i).await,
                false => rig.failed_unit(i).await,
            };
            rig.member_op(&member::RECOVER, unit, json!({})).await
        }
        "member.upgrade" => {
            let to = json!({"app_version_id": rig.catalog.versions[1]});
            rig.member_op(&member::UPGRADE, units[0], to).await
        }
        "members.add" => rig.add_many(i, 3).await.1,
        "members.drain" => rig.members_op(&members::DRAIN, i, &units).await,
        "members.resume" => {
            let drain = rig.members_op(&members::DRAIN, i, &units).await;
            assert_eq!(rig.drive(drain).await.state, OperationState::Succeeded);
            rig.members_op(&members::RESUME, i, &units).await
        }
        "members.remove" => rig.members_op(&members::REMOVE, i, &units).await,
        "members.replace" => rig.members_op(&members::REPLACE, i, &units).await,
        "members.recover" => {
            let broken = [rig.broken_unit(i).await, rig.failed_unit(i).await];
            rig.members_op(&members::RECOVER, i, &broken).await
        }
        "instance.scale" => rig.scale(i, units[0]).await,
        "instance.upgrade" | "instance.rollback" => {
            let definition = if verb == "upgrade" { &instance::UPGRADE } else { &instance::ROLLBACK };
            let [from, to] = rig.catalog.versions;
            rig.instance_op(definition, i, json!({"app_version_id": to, "from": from}), false).await
        }
        "instance.decommission" => rig.instance_op(&instance::DECOMMISSION, i, json!({}), false).await,
        other => panic!("the harness does not know {other}: teach it"),
    };
    match verb {
        _ if !undoing => {}
        // The owner cancels it half-way.
        _ if several => {
            rig.engine.round().await.unwrap();
            cancel(rig, operation).await;
        }
        "drain" => rig.adapter.cannot(AdapterVerb::Drain),
        _ => rig.adapter.cannot(AdapterVerb::Join),
    }
    operation
}

async fn cancel(rig: &Rig, id: OperationId) {
    let mut tx = rig.store.begin().await.unwrap();
    tx.operation_cancel(id, rig.env.now()).await.unwrap();
    tx.commit().await.unwrap();
}

fn expected(kind: &str, undoing: bool) -> OperationState {
    match (kind, undoing) {
        (_, false) => OperationState::Succeeded,
        ("node.drain", true) => OperationState::Cancelled,
        (several, true) if several.starts_with("members.") => OperationState::Cancelled,
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

async fn killed(database: fn() -> Database, points: Vec<String>) -> BTreeMap<String, u64> {
    let mut struck = BTreeMap::new();
    let mut rig = Rig::new(database()).await;
    for point in points {
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

fn points_of(kind: &str) -> Vec<String> {
    kill_points().into_iter().filter(|point| parts(point).0 == kind).collect()
}

/// Returns the points at which PostgreSQL strikes.
fn sampled(points: Vec<String>) -> Vec<String> {
    let Some(seed) = seed() else { return points };
    let taken = points.into_iter().enumerate().filter(|(index, _)| is_sampled(*index, seed));
    taken.map(|(_, point)| point).collect()
}

#[test]
fn three_seeds_cover_every_point_and_each_takes_points_of_every_suffix() {
    let points = points_of("member.add");
    let taken = |seed| points.iter().enumerate().filter(move |(index, _)| is_sampled(*index, seed));
    let mut all: Vec<usize> = (0..3).flat_map(|seed| taken(seed).map(|(index, _)| index)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..points.len()).collect::<Vec<_>>());
    for suffix in [":before", ":before_commit", ":after_commit"] {
        assert!((0..3).all(|seed| taken(seed).any(|(_, point)| point.ends_with(suffix))), "{suffix}");
    }
}

const HEAD: &str =
    "# Every point at which an engine is killed, and how often the harness struck there on SQLite.\n";

/// Compares the lines of this kind with the golden file, which is shared by all kinds. Blessing writes them one kind at a
/// time.
fn blessed(kind: &str, counts: &BTreeMap<String, u64>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/kill_points.txt");
    let lock = std::fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    lock.lock().unwrap();
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let kept: BTreeMap<&str, &str> = kept.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut text = String::from(HEAD);
    for point in kill_points() {
        if parts(&point).0 == kind {
            text.push_str(&format!("{point} {}\n", counts.get(&point).copied().unwrap_or(0)));
        } else if let Some(each) = kept.get(point.as_str()) {
            text.push_str(&format!("{point} {each}\n"));
        }
    }
    golden(&path, &text);
}

#[test]
fn the_golden_file_has_every_point_and_each_was_struck() {
    let text = include_str!("../output/kill_points.txt");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let struck: Vec<String> = kill_points().into_iter().map(|point| format!("{point} 1")).collect();
    assert_eq!(lines, struck);
}

macro_rules! kinds {
    ($($name:ident = $kind:literal)*) => {
        /// One test for each kind, so that they run in parallel.
        mod of {$(
            mod $name {
                #[tokio::test(flavor = "multi_thread")]
                async fn golden_engine_killed_at_any_point_is_resumed_by_another() {
                    super::super::killed_on_both($kind).await;
                }
                #[tokio::test(flavor = "multi_thread")]
                async fn every_step_and_every_undo_can_fail() {
                    super::super::failed_on_both($kind).await;
                }
                #[tokio::test(flavor = "multi_thread")]
                async fn every_task_can_be_done_and_reported_twice() {
                    super::super::repeated_on_both($kind).await;
                }
            }
        )*}

        #[test]
        fn every_kind_is_tested() {
            let tested = [$($kind),*];
            let known: Vec<&str> = muster_engine::KINDS.iter().map(|definition| definition.kind.as_str()).collect();
            assert_eq!(tested.as_slice(), known.as_slice());
        }
    };
}

kinds! {
    allocation_create = "allocation.create"
    allocation_release = "allocation.release"
    allocation_restart = "allocation.restart"
    allocation_resize = "allocation.resize"
    allocation_clean = "allocation.clean"
    cell_create = "cell.create"
    cell_restart = "cell.restart"
    cell_destroy = "cell.destroy"
    node_drain = "node.drain"
    node_retire = "node.retire"
    node_audit = "node.audit"
    member_add = "member.add"
    member_drain = "member.drain"
    member_resume = "member.resume"
    member_remove = "member.remove"
    member_replace = "member.replace"
    member_recover = "member.recover"
    member_upgrade = "member.upgrade"
    members_add = "members.add"
    members_drain = "members.drain"
    members_resume = "members.resume"
    members_remove = "members.remove"
    members_replace = "members.replace"
    members_recover = "members.recover"
    instance_create = "instance.create"
    instance_scale = "instance.scale"
    instance_upgrade = "instance.upgrade"
    instance_rollback = "instance.rollback"
    instance_decommission = "instance.decommission"
}

async fn killed_on_both(kind: &'static str) {
    let all = points_of(kind);
    let some = sampled(all.clone());
    let (sqlite, postgres) = tokio::join!(
        tokio::spawn(killed(Database::sqlite, all)),
        tokio::spawn(killed(Database::postgres, some.clone()))
    );
    blessed(kind, &sqlite.unwrap());
    assert_eq!(postgres.unwrap().len(), some.len());
}

/// Every step and every undo is refused before it takes effect: the operation rolls back if it can, and otherwise is blocked
/// and continues when it is retried.
async fn failed(database: fn() -> Database, points: Vec<String>) {
    let mut rig = Rig::new(database()).await;
    for point in points {
        let (kind, undoing) = parts(&point);
        rig.reset().await;
        let id = begin(&mut rig, kind, undoing).await;
        rig.engine.points.arm(&point, Strike::Refuse, 1);
        let engine = rig.engine.clone();
        let mut ended = drive_on(&mut rig, id).await;
        assert_eq!(engine.points.struck(), 1, "{point} was never hit");
        if ended == OperationState::Blocked {
            crate::stories::retry(&rig, id).await;
            ended = drive_on(&mut rig, id).await;
        }
        let fine = [OperationState::Succeeded, OperationState::Failed, expected(kind, undoing)];
        assert!(fine.contains(&ended), "refused at {point}: {ended}");
        settle(&rig).await;
    }
}

/// Drives without treating a refusal as a death.
async fn drive_on(rig: &mut Rig, id: OperationId) -> OperationState {
    rig.drive_with(id, false).await.state
}

async fn failed_on_both(kind: &'static str) {
    let all: Vec<String> = points_of(kind).into_iter().filter(|point| point.ends_with(":before")).collect();
    let some = sampled(all.clone());
    let (sqlite, postgres) = tokio::join!(
        tokio::spawn(failed(Database::sqlite, all)),
        tokio::spawn(failed(Database::postgres, some))
    );
    sqlite.unwrap();
    postgres.unwrap();
}

/// Every task runs and is reported twice: the second report is rejected, and nothing happens twice.
async fn repeated(database: fn() -> Database, kind: &'static str) {
    for undoing in [false, true] {
        if undoing && !points_of(kind).iter().any(|point| parts(point).1) {
            continue;
        }
        let mut rig = Rig::new(database()).await;
        (rig.node.repeats, rig.adapter.repeats) = (true, true);
        let id = begin(&mut rig, kind, undoing).await;
        let ended = rig.drive(id).await;
        assert_eq!(ended.state, expected(kind, undoing), "{kind} repeated: {ended:#?}");
        assert!(rig.node.refused > 0, "no second report was refused");
        settle(&rig).await;
    }
}

async fn repeated_on_both(kind: &'static str) {
    let (sqlite, postgres) = tokio::join!(
        tokio::spawn(repeated(Database::sqlite, kind)),
        tokio::spawn(repeated(Database::postgres, kind))
    );
    sqlite.unwrap();
    postgres.unwrap();
}

/// The agent is killed before and after the effect of every kind of task.
#[tokio::test(flavor = "multi_thread")]
async fn agent_killed_before_or_after_any_effect_is_resumed() {
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

/// Dies at the same point repeatedly: every pass over every step recovers from the current state.
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
            rig.turn().await;
            if engine.points.struck() > 0 {
                deaths += 1;
                // One pass in three is let through, or `before_commit` would never let anything happen.
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
