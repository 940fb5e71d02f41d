//! Races in the fleet and the engine on PostgreSQL: the second transaction hits a constraint, not just a check.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Authority, Hold, Quota, Result, Store, StoreError, TaskReport};
use muster_ids::{Env, NodeId, OperationId, SlotId};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::node::Capacity;
use muster_model::operation::Operation;
use muster_model::placement::Fit;
use muster_model::task::TaskState;
use muster_testkit::Database;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::concurrency::{RACERS, race, replicas};
use crate::made::{self, at, fleet, put, uuid};

const NOTHING: Capacity = Capacity { gpus: 0, cpus: 0, memory_mb: 0, disk_mb: 0 };

/// Returns the number of successes; all failures must match `refused`.
fn went_through(answers: Vec<Result<()>>, refused: impl Fn(&StoreError) -> bool) -> usize {
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(refused(error), "{error:?}");
    }
    answers.iter().filter(|answer| answer.is_ok()).count()
}

fn conflict(error: &StoreError) -> bool {
    matches!(error, StoreError::Conflict(_))
}

/// Asserts that the started work is still waiting.
async fn waits<T>(work: &JoinHandle<T>) {
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!work.is_finished(), "it must wait for the other");
}

async fn let_go<T>(work: JoinHandle<T>) -> T {
    timeout(Duration::from_secs(10), work).await.expect("it is let go").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operation_is_leased_to_two() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let now = Env::system().now();
    let mut due = BTreeSet::new();
    for _ in 0..60 {
        let operation = Operation { due_at: now, ..fleet::operation(uuid(), &[]) };
        due.insert(fleet::opened(&stores[0], operation).await.id);
    }
    let mut leased: Vec<OperationId> = Vec::new();
    while leased.len() < due.len() {
        let round = race(&stores, |n, store| async move {
            let length = SignedDuration::from_secs(60);
            store.operation_lease(&format!("r{n}"), length, now, 3).await.unwrap()
        })
        .await
        .concat();
        assert!(!round.is_empty(), "those that were passed over are found the next time");
        assert!(round.iter().all(|operation| operation.generation == 1), "one was leased twice");
        leased.extend(round.iter().map(|operation| operation.id));
    }
    leased.sort();
    assert_eq!(leased, due.into_iter().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_operations_on_one_thing_the_second_sees_what_the_first_took() {
    let database = Database::postgres();
    let [one, other] = replicas(&database).await;
    let on = |thing: uuid::Uuid, shared: bool| {
        let touching = fleet::operation(thing, &[thing]);
        match shared {
            false => touching,
            true => Operation { shared_locks: vec![thing], exclusive_locks: Vec::new(), ..touching },
        }
    };
    for commits in [true, false] {
        for (first_shares, second_shares) in [(false, false), (true, false), (false, true), (true, true)] {
            let thing = uuid();
            // The first operation's row is inserted later, so that neither finds the other.
            let first = on(thing, first_shares);
            let second = fleet::opened(&one, on(thing, second_shares)).await;
            let mut holding = one.begin().await.unwrap();
            assert_eq!(holding.operation_hold(second.id).await.unwrap(), None);
            fleet::opened(&one, first.clone()).await;
            let late = tokio::spawn({
                let (store, id) = (other.clone(), first.id);
                async move { put(&store, async |tx| tx.operation_hold(id).await).await }
            });
            waits(&late).await;
            match commits {
                true => holding.commit().await.unwrap(),
                false => holding.rollback().await,
            }
            let apart = commits && !(first_shares && second_shares);
            assert_eq!(
                let_go(late).await.unwrap(),
                apart.then_some(second.id),
                "{first_shares} {second_shares}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_at_the_moment_of_a_step_is_not_slept_over() {
    let database = Database::postgres();
    let [engine, agent] = replicas(&database).await;
    let now = Env::system().now();
    let later = now + SignedDuration::from_hours(1);
    let open = async || {
        let operation = Operation { due_at: now, ..fleet::operation(uuid(), &[]) };
        let operation = fleet::opened(&engine, operation).await;
        let leased = engine.operation_lease("a", SignedDuration::from_secs(60), now, 9).await.unwrap();
        leased.into_iter().find(|leased| leased.id == operation.id).unwrap()
    };
    // The step is written first, but not committed yet.
    let held = open().await;
    let mut step = engine.begin().await.unwrap();
    step.operation_advance(&Operation { due_at: later, ..held.clone() }, now, None).await.unwrap();
    let wake = tokio::spawn({
        let (store, id) = (agent.clone(), held.id);
        async move { put(&store, async |tx| tx.operation_wake(id, now).await).await }
    });
    waits(&wake).await;
    step.commit().await.unwrap();
    let_go(wake).await.unwrap();
    assert!(engine.operation_lookup(held.id).await.unwrap().unwrap().due_at <= now);

    // The wake-up is written first, but not committed yet.
    let held = open().await;
    let mut wake = agent.begin().await.unwrap();
    wake.operation_wake(held.id, now).await.unwrap();
    let step = tokio::spawn({
        let (store, sleeping) = (engine.clone(), Operation { due_at: later, ..held.clone() });
        async move { put(&store, async |tx| tx.operation_advance(&sleeping, now, None).await).await }
    });
    waits(&step).await;
    wake.commit().await.unwrap();
    let_go(step).await.unwrap();
    let found = engine.operation_lookup(held.id).await.unwrap().unwrap();
    assert!(found.due_at <= now && found.wakes == 1, "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_holds_the_slot() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let (node, slots) = fleet::machine(&stores[0], "gpu-1", 4).await;
    let (_, project) = fleet::place(&stores[0]).await;
    let mut asked = Vec::new();
    for n in 0..RACERS {
        asked.push(fleet::requested(&stores[0], &project, &format!("a{n}")).await.id);
    }
    let answers = race(&stores, |n, store| {
        let hold =
            Hold { amount: fleet::capacity(1, 2, 4, 8), ..fleet::hold(node, asked[n], &[slots[0].id]) };
        async move { put(&store, async |tx| tx.hold(&hold, &fleet::claims(&hold)).await).await }
    })
    .await;
    assert_eq!(went_through(answers, conflict), 1);
    let found = stores[1].node_lookup(node).await.unwrap().unwrap();
    assert_eq!(
        (found.free, found.holders),
        (fleet::capacity(3, 62, 996, 1992), 1),
        "the losers took nothing"
    );
    // The same for counted resources: thirty-two times two CPUs is all there is.
    let answers = race(&stores, |n, store| {
        let amount = fleet::capacity(0, 8, 0, 0);
        let hold = Hold { amount, holders: 0, ..fleet::hold(node, asked[n], &[]) };
        async move { put(&store, async |tx| tx.hold(&hold, &[]).await).await }
    })
    .await;
    assert_eq!(went_through(answers, conflict), 7);
    assert_eq!(stores[0].node_lookup(node).await.unwrap().unwrap().free.cpus, 6);
}

/// Takes one slot of the best candidate, as the engine would; `None` if other transactions have locked all of them.
async fn take(store: &Store, allocation: muster_ids::AllocationId) -> Result<Option<(NodeId, SlotId)>> {
    let kinds: Vec<Fit> = store.fits().await?.into_iter().filter(|fit| fit.gpus > 0).collect();
    put(store, async |tx| {
        let Some(candidate) = tx.candidate(&kinds, &NOTHING, at(2)).await? else { return Ok(None) };
        let Some((first, left)) = candidate.free.split_first() else { return Ok(None) };
        let hold = Hold { fit: Fit::of(left, false), ..fleet::hold(candidate.node, allocation, &[first.id]) };
        tx.hold(&hold, &fleet::claims(&hold)).await?;
        Ok(Some((candidate.node, first.id)))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_choose_at_once_share_out_all_there_is() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    for name in ["a", "b", "c", "d"] {
        fleet::machine(&stores[0], name, 4).await;
    }
    let (_, project) = fleet::place(&stores[0]).await;
    let mut asked = Vec::new();
    for n in 0..RACERS {
        asked.push(fleet::requested(&stores[0], &project, &format!("a{n}")).await.id);
    }
    let taken = race(&stores, |n, store| {
        let allocation = asked[n];
        async move {
            loop {
                match take(&store, allocation).await {
                    Ok(Some(taken)) => return taken,
                    Ok(None) | Err(StoreError::Conflict(_)) => {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    })
    .await;
    let slots: BTreeSet<SlotId> = taken.iter().map(|(_, slot)| *slot).collect();
    assert_eq!(slots.len(), RACERS, "each has a slot of its own");
    for node in stores[0].node_list(made::FIRST, &made::selector(""), None).await.unwrap() {
        assert_eq!((node.free.gpus, node.holders), (0, 4), "{}", node.name);
    }
    assert!(take(&stores[0], asked[0]).await.unwrap().is_none(), "and there is no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_reached_and_never_passed() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let (_, project) = fleet::place(&stores[0]).await;
    let id = project.id;
    // The first one creates the row, and all of them are first.
    let answers = race(&stores, |_, store| async move {
        put(&store, async |tx| tx.quota_take(id, 0, fleet::capacity(1, 0, 0, 0)).await).await.unwrap()
    })
    .await;
    assert!(answers.into_iter().all(|taken| taken));
    let used = stores[0].quota_lookup(id).await.unwrap();
    assert_eq!(used.used.gpus, i64::try_from(RACERS).unwrap());
    let limits = Quota { max_allocations: Some(5), ..used };
    let answers =
        race(
            &stores,
            |_, store| async move { put(&store, async |tx| tx.quota_set(id, &limits).await).await },
        )
        .await;
    assert_eq!(went_through(answers, |error| matches!(error, StoreError::Stale)), 1);
    for round in 1..=5 {
        let answers = race(&stores, |_, store| async move {
            put(&store, async |tx| tx.quota_take(id, 1, NOTHING).await).await.unwrap()
        })
        .await;
        assert_eq!(answers.into_iter().filter(|taken| *taken).count(), 5, "round {round}");
        assert_eq!(stores[1].quota_lookup(id).await.unwrap().used_allocations, 5);
        put(&stores[0], async |tx| tx.quota_take(id, -5, NOTHING).await).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_uses_the_right_to_join() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    for round in 0..10_u8 {
        let right = fleet::enrolment(None);
        let hash = [round; 32];
        put(&stores[0], async |tx| tx.enrolment_insert(&right, &hash, "usr_1", at(0), at(60)).await)
            .await
            .unwrap();
        let answers = race(&stores, |n, store| {
            let (right, joining) = (right.id, fleet::joining(&format!("gpu-{round}-{n}")));
            async move {
                put(&store, async |tx| {
                    // Half of them skip the lock: the use itself is the guard.
                    if n % 2 == 0 {
                        tx.enrolment_lock(right, at(1)).await?;
                    }
                    tx.node_join(&joining).await?;
                    tx.enrolment_use(right, joining.id, fleet::key(), at(1)).await
                })
                .await
            }
        })
        .await;
        assert_eq!(went_through(answers, |error| matches!(error, StoreError::Fenced)), 1);
        let nodes = stores[0].heartbeat_list().await.unwrap();
        assert_eq!(nodes.len(), usize::from(round) + 1, "the others left nothing behind");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_has_the_name_and_one_authority_signs() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let answers = race(&stores, |_, store| async move {
        put(&store, async |tx| tx.node_join(&fleet::joining("gpu-1")).await).await
    })
    .await;
    assert_eq!(went_through(answers, conflict), 1);
    let kept = race(&stores, |n, store| async move {
        let (certificate, sealed_key) = (format!("of {n}"), vec![1]);
        let authority = Authority { certificate, sealed_key, key_version: 1, created_at: at(0) };
        put(&store, async |tx| tx.authority_put("nodes", &authority).await).await.unwrap()
    })
    .await;
    assert_eq!(kept.into_iter().filter(|kept| *kept).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_moves_an_allocation_and_the_others_are_stale() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let (_, project) = fleet::place(&stores[0]).await;
    let asked = fleet::requested(&stores[0], &project, "a").await;
    let answers = race(&stores, |_, store| {
        let (before, after) =
            (asked.clone(), Allocation { state: AllocationState::Placing, ..asked.clone() });
        async move { put(&store, async |tx| tx.allocation_move(&before, &after, at(1)).await).await }
    })
    .await;
    assert_eq!(went_through(answers, |error| matches!(error, StoreError::Stale)), 1);
    assert_eq!(stores[0].phase_list(asked.id).await.unwrap().len(), 2);
}

/// Creates a node with an agent in its first session.
async fn agent(store: &Store) -> NodeId {
    let (node, _) = fleet::machine(store, "gpu-1", 0).await;
    put(store, async |tx| tx.node_hello(node, "0.1.0", json!({}), "x", true, at(0)).await).await.unwrap();
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_asked_for_once_and_handed_out_once() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let node = agent(&stores[0]).await;
    let operation: OperationId = made::id();
    for key in ["a", "b", "c", "d"] {
        let answers = race(&stores, |_, store| async move {
            put(&store, async |tx| tx.task_queue(&fleet::task(node, operation, key)).await).await
        })
        .await;
        assert!(answers.into_iter().all(|answer| answer.is_ok()), "a repeat is no failure");
    }
    let tasks = stores[0].task_list(operation).await.unwrap();
    assert_eq!(tasks.len(), 4);
    let mut handed = Vec::new();
    while handed.len() < tasks.len() {
        let round =
            race(&stores, |_, store| async move { store.task_deliver(node, 1, at(1), 2).await.unwrap() })
                .await
                .concat();
        assert!(!round.is_empty(), "those that were passed over are found the next time");
        handed.extend(round.into_iter().map(|task| task.id));
    }
    handed.sort();
    assert_eq!(handed, tasks.iter().map(|task| task.id).collect::<Vec<_>>());
}

/// Starts a hello with its requeued tasks, not committed yet.
async fn hello(store: &Store, node: NodeId) -> muster_db::Tx {
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.node_hello(node, "0.1.0", json!({}), "x", true, at(0)).await.unwrap(), 2);
    tx.task_requeue(node).await.unwrap();
    tx
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_handed_to_an_agent_at_the_moment_that_another_takes_over() {
    let database = Database::postgres();
    let [one, other] = replicas(&database).await;
    let node = agent(&one).await;
    let hello = hello(&one, node).await;
    // Queued after the hello has requeued the existing tasks, so that it misses this one.
    let task = fleet::task(node, made::id(), "prepare");
    put(&other, async |tx| tx.task_queue(&task).await).await.unwrap();
    let deliver = |session| {
        let store = other.clone();
        tokio::spawn(async move { store.task_deliver(node, session, at(1), 9).await.unwrap() })
    };
    let old = deliver(1);
    waits(&old).await;
    hello.commit().await.unwrap();
    let handed = let_go(old).await;
    assert!(handed.is_empty(), "the older agent was given {handed:?}, and nobody would have taken it back");
    assert_eq!(let_go(deliver(2)).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_at_the_moment_that_another_agent_takes_over_is_refused() {
    let database = Database::postgres();
    let [one, other] = replicas(&database).await;
    let node = agent(&one).await;
    let task = fleet::task(node, made::id(), "prepare");
    put(&one, async |tx| tx.task_queue(&task).await).await.unwrap();
    assert_eq!(one.task_deliver(node, 1, at(1), 9).await.unwrap().len(), 1);
    let hello = hello(&one, node).await;
    let said = TaskReport {
        id: task.id,
        incarnation: task.incarnation,
        generation: task.generation,
        state: TaskState::Done,
        result: json!({}),
        message: None,
    };
    let report = tokio::spawn({
        let store = other.clone();
        async move {
            put(&store, async |tx| {
                tx.task_report(node, &said, at(2)).await?;
                tx.node_in_session(node, 1).await
            })
            .await
        }
    });
    waits(&report).await;
    hello.commit().await.unwrap();
    made::is_fenced(let_go(report).await);
    assert_eq!(one.task_lookup(task.id).await.unwrap().unwrap().state, TaskState::Queued);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_hear_the_same_nodes_do_not_lock_each_other_out() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let nodes: Vec<NodeId> = (0..500).map(|_| made::id()).collect();
    for round in 0..5 {
        let answers = race(&stores, |n, store| {
            let mut heard = nodes.clone();
            // Each in a different order, as sets are.
            heard.rotate_left(n * 31);
            if n % 2 == 1 {
                heard.reverse();
            }
            async move { store.heartbeat_write(&heard, &[], at(round)).await }
        })
        .await;
        for answer in answers {
            answer.unwrap();
        }
    }
}
