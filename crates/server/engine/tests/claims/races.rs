//! Two races that random runs find too seldom, set up deterministically.

use std::time::Duration;

use muster_db::Hold;
use muster_model::node::Capacity;
use muster_model::placement::Fit;
use muster_testkit::Database;
use tokio::task::JoinSet;

use crate::fleet::Fleet;
use crate::history::Stopwatch;
use crate::oracle::{Finding, findings};
use crate::stale::Choice;
use crate::worker::{Sight, Worker};

/// A node locked by another claim is skipped rather than waited for; it must not be reported as full.
#[tokio::test(flavor = "multi_thread")]
async fn claim_never_fails_for_capacity_while_the_node_has_room() {
    for database in Database::both() {
        let fleet = Fleet::new(database, 1).await;
        let clock = Stopwatch::start();
        let mut tasks = JoinSet::new();
        for number in 0..4 {
            let mut worker = Worker::new(&fleet, number, Sight::Fresh, clock);
            tasks.spawn(async move {
                for _ in 0..50 {
                    let asked = worker.slice(2);
                    assert!(worker.claim(&asked).await, "four times two is what the node has");
                    worker.release_all().await;
                }
                worker
            });
        }
        let workers = tasks.join_all().await;
        assert_eq!(findings(&fleet, &workers).await, Vec::<Finding>::new());
    }
}

/// Delays the first statement that searches for a node by half a second between its snapshot and its lock.
const DAWDLE: &str = "
    CREATE SEQUENCE dawdles;
    CREATE FUNCTION dawdle() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN
        IF nextval('dawdles') = 1 THEN PERFORM pg_sleep(0.5); END IF;
        RETURN true;
    END $$;
    ALTER TABLE nodes RENAME TO all_nodes;
    CREATE VIEW nodes AS SELECT xmin, * FROM all_nodes WHERE dawdle();";

/// On PostgreSQL a statement locks the newest version of a node's row, but reads the slots from its own snapshot. If both
/// changed in between and the node still has the same capacity, the slots must be read again.
#[tokio::test(flavor = "multi_thread")]
async fn slots_that_changed_hands_while_a_node_was_being_locked_are_read_again() {
    let fleet = Fleet::new(Database::postgres(), 1).await;
    let store = &fleet.replicas[0];
    let clock = Stopwatch::start();
    let worker = |number| Worker::new(&fleet, number, Sight::Fresh, clock);
    let (mut slow, mut first, mut second) = (worker(0), worker(1), worker(2));
    assert!(first.claim(&first.slice(1)).await, "the first slot of the first island");
    let fits = store.fits().await.unwrap();
    store.sabotage(DAWDLE).await.unwrap();

    let asked = slow.slice(1);
    let slow = tokio::spawn(async move {
        assert!(slow.claim_by(&asked, &Choice::Under(fits)).await.unwrap());
        slow
    });
    tokio::time::sleep(Duration::from_millis(150)).await;
    // The claimed slot is now in the other island; by the counters, the node has the same capacity as before.
    first.release_all().await;
    let (asked, slots) = (second.slice(1), store.slot_list(fleet.nodes[0]).await.unwrap());
    let hold = Hold {
        node: fleet.nodes[0],
        allocation: asked.id,
        slots: vec![slots[4].id],
        amount: Capacity { gpus: 1, ..asked.capacity },
        holders: 1,
        exclusive: false,
        fit: Fit { whole: false, gpus: 7, pocket: 4, island: 4, numa: 4 },
        at: second.env.now(),
    };
    assert!(second.claim_by(&asked, &Choice::Before(hold)).await.unwrap());
    assert!(!slow.is_finished(), "it was over before anything changed");

    let workers = [slow.await.unwrap(), first, second];
    assert_eq!(findings(&fleet, &workers).await, Vec::<Finding>::new());
}
