//! The main test: many concurrent claims and releases, with repeated counts at rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_model::node::Slot;
use muster_testkit::Database;
use tokio::task::JoinSet;

use crate::fleet::{Fleet, below, env, number};
use crate::history::{Deed, Event, Stopwatch, by_slot};
use crate::oracle::{Finding, findings};
use crate::search::linearizable;
use crate::worker::{Sight, Tally, Worker};

/// Two for each replica.
const WORKERS: usize = 4;
/// Number of times that all workers stop for a full count.
const CHECKPOINTS: u64 = 4;

/// Runs all workers concurrently until each has made its share of the claims.
async fn round(workers: Vec<Worker>, claims: u64, most_held: usize) -> Vec<Worker> {
    let share = claims.div_ceil(workers.len() as u64);
    let mut tasks = JoinSet::new();
    for mut worker in workers {
        tasks.spawn(async move {
            worker.work(share, most_held).await;
            worker
        });
    }
    tasks.join_all().await
}

/// Reads node after node through either replica while the workers run, until `stop` is set.
async fn watch(fleet: Arc<Fleet>, watch: Stopwatch, stop: Arc<AtomicBool>) -> Vec<Event> {
    let (env, mut events) = (env(fleet.seed), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let node = fleet.nodes[below(&env, fleet.nodes.len() as u64) as usize];
        let store = fleet.replica(below(&env, 2) as usize);
        let invoked = watch.now();
        let slots = store.slot_list(node).await.unwrap();
        let returned = watch.now();
        let saw = |slot: &Slot| Event {
            worker: WORKERS,
            slot: slot.id,
            deed: Deed::Saw(slot.allocation_id),
            invoked,
            returned,
        };
        events.extend(slots.iter().map(saw));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    events
}

async fn load(database: Database, nodes: usize, claims: u64) -> Tally {
    let fleet = Arc::new(Fleet::new(database, nodes).await);
    let clock = Stopwatch::start();
    let mut workers: Vec<Worker> =
        (0..WORKERS).map(|number| Worker::new(&fleet, number, Sight::Fresh, clock)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = tokio::spawn(watch(fleet.clone(), clock, stop.clone()));
    // Together they may hold about the fleet's capacity, so that it is often full and never for long.
    let most_held = nodes * 8 / WORKERS / 2;
    for checkpoint in 1..=CHECKPOINTS {
        workers = round(workers, claims / CHECKPOINTS, most_held).await;
        let found = findings(&fleet, &workers).await;
        assert_eq!(found, Vec::<Finding>::new(), "seed {}, checkpoint {checkpoint}", fleet.seed);
    }
    for worker in &mut workers {
        worker.release_all().await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut events = watcher.await.unwrap();
    assert_eq!(findings(&fleet, &workers).await, Vec::<Finding>::new(), "seed {}, at the end", fleet.seed);
    let kinds = fleet.replicas[0].fit_counts().await.unwrap();
    assert_eq!(kinds.len(), 1, "everything is whole again: {kinds:?}");
    events.extend(workers.iter().flat_map(|worker| worker.history.iter().copied()));
    for (slot, history) in by_slot(events) {
        let judged = linearizable(&history);
        assert!(judged.is_ok(), "seed {}: {slot} was no lock at {judged:?}", fleet.seed);
    }
    let mut tally = Tally::default();
    workers.iter().for_each(|worker| tally.add(&worker.tally));
    println!("{tally:?}");
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_claims_by_two_replicas_leave_none_double_and_none_leaked() {
    let claims = number("MUSTER_CLAIMS", 10_000);
    let tally = load(Database::postgres(), 64, claims).await;
    assert!(tally.claims >= claims && tally.releases == tally.claims, "{tally:?}");
    assert!(tally.unheard > 0 && tally.refused > 0, "nothing was provoked: {tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_claims_on_the_embedded_database_leave_none_double_and_none_leaked() {
    let claims = number("MUSTER_CLAIMS", 10_000) / 10;
    let tally = load(Database::sqlite(), 16, claims).await;
    assert!(tally.claims >= claims && tally.releases == tally.claims, "{tally:?}");
    assert!(tally.unheard > 0 && tally.refused > 0, "nothing was provoked: {tally:?}");
}
