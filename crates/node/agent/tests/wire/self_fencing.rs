//! Self-fencing: cells that are partitioned for too long end, and their state stays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_agent::real;
use muster_agent_sim::Effect;
use muster_ids::{AllocationId, CellId};
use muster_wire::cell::CellSpec;
use muster_wire::task::{Ending, Task, TaskKind};
use serde_json::json;

use crate::machine::{Machine, created, kill, of_kind};
use crate::pull::{create, prepare, reported, trust};
use crate::real::{Groups, layer, settings_of};
use crate::server::Server;

/// The shortest limit.
const LIMIT: Duration = Duration::from_secs(5);
/// Tolerance for the agent and a busy machine.
const SLACK: Duration = Duration::from_secs(4);

/// A task that creates a cell, of an image that a simulated node does not need, with a partition limit of [`LIMIT`] or none.
fn lone(machine: &Machine, allocation: AllocationId, limited: bool) -> Task {
    let image = format!("sha256:{}", "0f".repeat(32));
    let mut task = create(machine, allocation, machine.env.id(), &image, trust(false));
    let act = created(&mut task);
    (act.pull, act.spec.stop_after_partition) = (None, limited.then_some(5));
    task
}

fn cell(task: &Task) -> CellId {
    task.act.cell().unwrap().cell_id
}

/// Waits for a condition; fails after `most`.
async fn within(most: Duration, what: &str, so: impl Fn() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < most, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn cut_off_for_too_long_all_that_must_end_ends_at_once_and_nothing_else() {
    let server = Server::start().await;
    let mut machine = Machine::joined(&server).await;
    // Stopping them in sequence would take twice as long.
    machine.odds.latency = (Duration::from_secs(2), Duration::from_secs(2));
    let (a, b): (AllocationId, AllocationId) = (machine.env.id(), machine.env.id());
    let limited = [lone(&machine, a, true), lone(&machine, b, true)];
    let free = lone(&machine, a, false);
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), prepare(&machine, b)]).await;
    let made = reported(&server, vec![limited[0].clone(), limited[1].clone(), free.clone()]).await;
    assert!(made.iter().all(|report| report.ending == Ending::Done), "{made:?}");

    machine.cut.send_replace(true);
    let ended = || -> Vec<_> {
        machine.journal().into_iter().filter(|line| line.effect == Effect::CellDestroyed).collect()
    };
    tokio::time::sleep(LIMIT - Duration::from_secs(2)).await;
    assert!(ended().is_empty(), "no limit is over yet");
    within(Duration::from_secs(12), "both are gone", || ended().len() == 2).await;
    let ended = ended();
    let gone: Vec<CellId> = ended.iter().filter_map(|line| line.cell_id).collect();
    assert!(limited.iter().all(|task| gone.contains(&cell(task))), "{gone:?}");
    let apart = ended[1].at.duration_since(ended[0].at);
    assert!(apart.as_millis() < 1_500, "one waited for the other: {apart}");
    kill(running).await;
}

/// The last contact outlives the agent: repeated crashes do not restart the count.
#[tokio::test]
async fn an_agent_that_is_started_again_and_again_hears_nothing_either() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let task = lone(&machine, a, true);
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), task]).await;
    // The last contact is persisted within a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    machine.cut.send_replace(true);
    kill(running).await;
    let cut = Instant::now();
    let destroyed =
        || machine.effects().iter().filter(|(effect, _)| *effect == Effect::CellDestroyed).count() == 1;
    while !destroyed() {
        assert!(cut.elapsed() < LIMIT + 2 * SLACK, "it goes on although nobody was heard");
        let running = machine.start();
        tokio::time::sleep(Duration::from_secs(2)).await;
        kill(running).await;
    }
    assert!(cut.elapsed() + SLACK > LIMIT, "it ended too early");
}

/// A real cell with a service that takes half a minute to stop is dead at once, and its state is kept for its next
/// incarnation.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_cell_that_is_cut_off_dies_without_grace_and_keeps_its_state() {
    let server = Server::start().await;
    let machine = Machine::joined(&server).await;
    let a: AllocationId = machine.env.id();
    let id: CellId = machine.env.id();
    let mut image = String::new();
    server.script(|state| {
        let layer = state.registry.blob(layer());
        image = state.registry.image(&[layer]);
    });
    let make = |incarnation, script: &str| {
        let mut task = create(&machine, a, id, &image, trust(false));
        let act = created(&mut task);
        act.cell.incarnation = incarnation;
        let spec = json!({
            "root": {"image": image},
            "state": ["/data"],
            "stop_after_partition": 5,
            "services": [{"name": "stubborn", "stop_seconds": 30, "command": ["/bin/busybox", "sh", "-c", script]}],
        });
        act.spec = serde_json::from_value::<CellSpec>(spec).unwrap();
        task
    };
    let settings = settings_of(&machine, std::process::id().wrapping_add(31));
    let _groups = Groups(settings.key.clone());
    let driver = real::Driver::open(settings, &machine.env).unwrap();
    let running = machine.start_with(Arc::new(driver));

    let of = |pid: u32| std::path::PathBuf::from(format!("/proc/{pid}/root")).join("data/word");
    // All actions come before all assertions, so that a failure leaves nothing on the machine.
    let stubborn = "trap : TERM; echo kept > /data/word; while true; do sleep 1; done";
    let made = reported(&server, vec![prepare(&machine, a), make(1, stubborn)]).await;
    let pid = made[1].findings.cell.as_ref().map_or(0, |cell| cell.pid);
    let word = of(pid);
    let wrote = Instant::now();
    while !word.exists() && wrote.elapsed() < SLACK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let lived = pid != 0 && word.exists();
    machine.cut.send_replace(true);
    let cut = Instant::now();
    while word.exists() && cut.elapsed() < Duration::from_secs(40) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = cut.elapsed();
    tokio::time::sleep(Duration::from_secs(2)).await;
    machine.cut.send_replace(false);
    let again = reported(&server, vec![make(2, "cat /data/word; exec sleep 1000")]).await;
    let pid = again[0].findings.cell.as_ref().map_or(0, |cell| cell.pid);
    let kept = std::fs::read_to_string(of(pid));
    let ends = [TaskKind::Destroy, TaskKind::Wipe].map(|kind| of_kind(kind, prepare(&machine, a)));
    let ended = reported(&server, ends.to_vec()).await;
    kill(running).await;

    assert!(lived, "{made:?}");
    assert!(took < LIMIT + SLACK, "it went on for {took:?}");
    assert_eq!(kept.unwrap(), "kept\n");
    assert!(ended.iter().all(|report| report.ending == Ending::Done), "{ended:?}");
}
