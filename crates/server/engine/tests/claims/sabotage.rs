//! With the guards removed, the oracle must report it; with one guard left, a faulty worker does no harm.

use muster_testkit::Database;
use tokio::task::JoinSet;

use crate::fleet::Fleet;
use crate::history::{Stopwatch, by_slot};
use crate::oracle::{Finding, findings};
use crate::search::linearizable;
use crate::worker::{Sight, Tally, Worker};

/// Result of workers that choose before they lock.
struct Outcome {
    findings: Vec<Finding>,
    /// Slots with a history that is not linearizable.
    broken: usize,
    tally: Tally,
}

impl Outcome {
    fn doubles(&self) -> usize {
        self.findings.iter().filter(|found| matches!(found, Finding::Double(..))).count()
    }
}

/// Runs stale workers that fill a small fleet concurrently, one GPU at a time.
async fn stale_workers(database: Database, guarded: bool) -> Outcome {
    let fleet = Fleet::new(database, 8).await;
    if !guarded {
        fleet.replicas[0].sabotage("DROP INDEX claims_live").await.unwrap();
    }
    let clock = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for number in 0..4 {
        let mut worker = Worker::new(&fleet, number, Sight::Stale, clock);
        tasks.spawn(async move {
            while worker.tally.claims < 16 && worker.claim(&worker.slice(1)).await {}
            worker
        });
    }
    let workers = tasks.join_all().await;
    let mut tally = Tally::default();
    workers.iter().for_each(|worker| tally.add(&worker.tally));
    let events = workers.iter().flat_map(|worker| worker.history.iter().copied());
    let broken = by_slot(events).values().filter(|history| linearizable(history).is_err()).count();
    Outcome { findings: findings(&fleet, &workers).await, broken, tally }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_index_stale_workers_claim_twice_and_are_seen() {
    for database in Database::both() {
        let outcome = stale_workers(database, false).await;
        assert!(outcome.doubles() > 0, "the oracle saw no double: {:?}", outcome.tally);
        assert!(outcome.broken > 0, "the search saw no broken lock: {:?}", outcome.tally);
        assert_eq!(outcome.tally.beaten, 0, "there was no index to beat anybody");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_index_stale_workers_are_beaten_often_and_never_claim_twice() {
    for database in Database::both() {
        let outcome = stale_workers(database, true).await;
        assert_eq!((outcome.doubles(), outcome.broken), (0, 0), "{:?}", outcome.findings);
        assert!(outcome.tally.beaten > 20, "the guard had nothing to do: {:?}", outcome.tally);
        // Their view of the rest of the node is stale too; but the counters of their claims are right.
        let wrong = outcome.findings.iter().filter(|found| !matches!(found, Finding::Misfiled(_)));
        assert_eq!(wrong.count(), 0, "{:?}", outcome.findings);
    }
}
