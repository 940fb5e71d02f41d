//! Two races that chance finds too seldom, set up so that they happen.

use muster_testkit::Database;
use tokio::task::JoinSet;

use crate::fleet::Fleet;
use crate::history::Stopwatch;
use crate::oracle::{Finding, findings};
use crate::worker::{Sight, Worker};

/// A node that another claims on at this moment is passed over, not waited for; that is no reason to say that it is full.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_that_there_is_no_room_while_there_is() {
    for database in Database::both() {
        let fleet = Fleet::new(database, 1).await;
        let clock = Stopwatch::start();
        let mut tasks = JoinSet::new();
        for number in 0..4 {
            let mut worker = Worker::new(&fleet, number, Sight::Fresh, clock);
            tasks.spawn(async move {
                for _ in 0..50 {
                    assert!(worker.claim_slice(2).await, "four times two is what the node has");
                    worker.release_all().await;
                }
                worker
            });
        }
        let workers = tasks.join_all().await;
        assert_eq!(findings(&fleet, &workers).await, Vec::<Finding>::new());
    }
}
