//! Node tasks: queued once, delivered to the agent of the current session, and reported on by that agent.

use muster_db::{Result, Store, TaskReport};
use muster_ids::{NodeId, TaskId};
use muster_model::task::{Task, TaskKind, TaskState};
use serde_json::json;

use crate::made::{self, at, fleet, put, same};

on_both![
    a_task_reads_back_as_it_was_asked_for,
    the_same_thing_is_asked_for_once,
    tasks_are_handed_to_the_agent_of_the_current_session,
    a_delivery_is_bounded_by_bytes_and_holds_at_least_one_task,
    expired_task_is_not_delivered,
    task_delivered_to_an_older_session_is_queued_again,
    only_what_was_never_delivered_can_be_withdrawn,
    a_report_is_taken_once_and_from_its_node,
    a_report_on_something_older_is_refused,
    a_report_of_an_older_session_is_refused,
    report_on_an_expired_task_is_fenced,
    rows_ended_before_the_cutoff_are_pruned,
    open_tasks_are_found_by_key_and_node_and_removed_by_operation,
    tasks_of_one_lease_are_counted_by_how_their_keys_begin,
    a_task_that_is_set_aside_leaves_its_key_to_another,
];

/// Creates a node with an agent that started without stale copies.
async fn agent(store: &Store, name: &str) -> NodeId {
    let joining = fleet::joining(name);
    put(store, async |tx| {
        tx.node_join(&joining).await?;
        tx.node_hello(joining.id, "0.1.0", json!({}), "x", true, at(0)).await
    })
    .await
    .unwrap();
    joining.id
}

async fn hello(store: &Store, node: NodeId, clean: bool) -> i64 {
    put(store, async |tx| {
        let session = tx.node_hello(node, "0.1.0", json!({}), "x", clean, at(0)).await?;
        tx.task_requeue(node).await.map(|_| session)
    })
    .await
    .unwrap()
}

async fn queue(store: &Store, task: &Task) -> Result<()> {
    put(store, async |tx| tx.task_queue(task).await.map(drop)).await
}

async fn queued(store: &Store, node: NodeId) -> Task {
    let task = fleet::task(node, made::id(), "prepare");
    queue(store, &task).await.unwrap();
    task
}

async fn stored(store: &Store, task: &Task) -> Task {
    store.task_lookup(task.id).await.unwrap().unwrap()
}

async fn deliver(store: &Store, node: NodeId, session: i64) -> Vec<TaskId> {
    let tasks = store.task_deliver(node, session, at(1), 10).await.unwrap();
    tasks.into_iter().map(|task| task.id).collect()
}

fn done(task: &Task) -> TaskReport {
    TaskReport {
        id: task.id,
        incarnation: task.incarnation,
        generation: task.generation,
        state: TaskState::Done,
        result: json!({"present": true}),
        message: Some("made".to_owned()),
    }
}

async fn report(store: &Store, node: NodeId, report: &TaskReport) -> Result<()> {
    put(store, async |tx| tx.task_report(node, report, at(4)).await).await
}

async fn a_task_reads_back_as_it_was_asked_for(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let operation = made::id();
    let first = fleet::task(node, operation, "prepare");
    let second =
        Task { kind: TaskKind::Survey, allocation_id: None, ..fleet::task(node, operation, "survey") };
    queue(&store, &first).await.unwrap();
    queue(&store, &second).await.unwrap();
    let elsewhere = queued(&store, node).await;
    same(&stored(&store, &first).await, &first);
    same(&store.task_list(operation).await.unwrap(), &[&first, &second]);
    same(&store.task_list(elsewhere.operation_id).await.unwrap(), &[&elsewhere]);
    assert!(store.task_lookup(made::id()).await.unwrap().is_none());
    made::is_gone(queue(&store, &fleet::task(made::id(), operation, "x")).await);
}

async fn the_same_thing_is_asked_for_once(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let first = queued(&store, node).await;
    let again = fleet::task(node, first.operation_id, "prepare");
    queue(&store, &again).await.unwrap();
    same(&store.task_list(first.operation_id).await.unwrap(), &[&first]);
    // The same after the first has ended: its result stands.
    report(&store, node, &done(&first)).await.unwrap();
    queue(&store, &again).await.unwrap();
    assert_eq!(store.task_list(first.operation_id).await.unwrap().len(), 1);
    assert_eq!(stored(&store, &first).await.state, TaskState::Done);
}

async fn tasks_are_handed_to_the_agent_of_the_current_session(store: Store) {
    let (node, other) = (agent(&store, "gpu-1").await, agent(&store, "gpu-2").await);
    let tasks = [queued(&store, node).await, queued(&store, node).await, queued(&store, node).await];
    let elsewhere = queued(&store, other).await;
    let mut waiting = store.task_nodes_waiting(at(1)).await.unwrap();
    waiting.sort();
    assert_eq!(waiting, [node, other]);
    assert!(deliver(&store, node, 0).await.is_empty(), "an older session");
    assert!(deliver(&store, node, 2).await.is_empty(), "one that nobody opened");
    let two = store.task_deliver(node, 1, at(1), 2).await.unwrap();
    let handed =
        |task: &Task| Task { state: TaskState::Delivered, delivered_at: Some(at(1)), ..task.clone() };
    same(&two, &[handed(&tasks[0]), handed(&tasks[1])]);
    assert_eq!(deliver(&store, node, 1).await, [tasks[2].id]);
    assert!(deliver(&store, node, 1).await.is_empty(), "each is handed out once");
    assert_eq!(store.task_nodes_waiting(at(1)).await.unwrap(), [other]);

    // Nothing is delivered to a node with stale copies, nor to a retired one.
    assert_eq!(hello(&store, other, false).await, 2);
    assert!(deliver(&store, other, 2).await.is_empty());
    assert_eq!(hello(&store, other, true).await, 3);
    assert_eq!(deliver(&store, other, 3).await, [elsewhere.id]);
    assert_eq!(hello(&store, other, true).await, 4);
    fleet::retired(&store, other).await;
    assert!(deliver(&store, other, 4).await.is_empty());
}

async fn a_delivery_is_bounded_by_bytes_and_holds_at_least_one_task(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let mut ids = Vec::new();
    for bytes in [900_000, 900_000, 900_000, 3_000_000, 10] {
        let payload = json!({"spec": "x".repeat(bytes)});
        let task = Task { payload, ..fleet::task(node, made::id(), "prepare") };
        queue(&store, &task).await.unwrap();
        ids.push(task.id);
    }
    assert_eq!(deliver(&store, node, 1).await, ids[..2], "two MiB are full");
    assert_eq!(deliver(&store, node, 1).await, ids[2..3], "the large one does not fit beside it");
    assert_eq!(deliver(&store, node, 1).await, ids[3..4], "one goes alone, however large");
    assert_eq!(deliver(&store, node, 1).await, ids[4..]);
    assert!(deliver(&store, node, 1).await.is_empty());
}

async fn expired_task_is_not_delivered(store: Store) {
    let node = agent(&store, "gpu-1").await;
    queued(&store, node).await;
    assert_eq!(store.task_nodes_waiting(at(299)).await.unwrap(), [node]);
    assert!(store.task_nodes_waiting(at(300)).await.unwrap().is_empty());
    assert!(store.task_deliver(node, 1, at(300), 10).await.unwrap().is_empty());
    assert_eq!(store.task_deliver(node, 1, at(299), 10).await.unwrap().len(), 1);
}

async fn task_delivered_to_an_older_session_is_queued_again(store: Store) {
    let (node, other) = (agent(&store, "gpu-1").await, agent(&store, "gpu-2").await);
    let (task, finished) = (queued(&store, node).await, queued(&store, node).await);
    let elsewhere = queued(&store, other).await;
    assert_eq!(deliver(&store, node, 1).await.len(), 2);
    assert_eq!(deliver(&store, other, 1).await, [elsewhere.id]);
    report(&store, node, &done(&finished)).await.unwrap();
    let requeued = put(&store, async |tx| {
        tx.node_hello(node, "0.1.0", json!({}), "x", true, at(0)).await?;
        tx.task_requeue(node).await
    })
    .await
    .unwrap();
    assert_eq!(requeued, 1);
    let requeued = Task { delivered_at: Some(at(1)), ..task.clone() };
    same(&stored(&store, &task).await, &requeued);
    let withdrawn = put(&store, async |tx| tx.task_withdraw(task.id, at(2)).await).await.unwrap();
    assert!(!withdrawn, "an agent had it, and may have begun it");
    assert_eq!(stored(&store, &finished).await.state, TaskState::Done);
    assert_eq!(stored(&store, &elsewhere).await.state, TaskState::Delivered);
    assert!(deliver(&store, node, 1).await.is_empty());
    assert_eq!(deliver(&store, node, 2).await, [task.id]);
}

async fn only_what_was_never_delivered_can_be_withdrawn(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let (lying, given) = (queued(&store, node).await, queued(&store, node).await);
    let withdraw =
        async |task: &Task| put(&store, async |tx| tx.task_withdraw(task.id, at(2)).await).await.unwrap();
    assert!(withdraw(&lying).await);
    assert_eq!(stored(&store, &lying).await.state, TaskState::Expired);
    assert_eq!(deliver(&store, node, 1).await, [given.id], "what was withdrawn is given to nobody");
    assert!(!withdraw(&given).await);
    assert_eq!(stored(&store, &given).await.state, TaskState::Delivered);
    assert!(!withdraw(&lying).await, "once");
}

async fn a_report_is_taken_once_and_from_its_node(store: Store) {
    let (node, other) = (agent(&store, "gpu-1").await, agent(&store, "gpu-2").await);
    let (task, neighbour) = (queued(&store, node).await, queued(&store, node).await);
    assert_eq!(deliver(&store, node, 1).await.len(), 2);
    made::is_fenced(report(&store, other, &done(&task)).await);
    made::is_fenced(report(&store, node, &TaskReport { id: made::id(), ..done(&task) }).await);
    report(&store, node, &done(&task)).await.unwrap();
    let ended = Task {
        state: TaskState::Done,
        result: Some(json!({"present": true})),
        message: Some("made".to_owned()),
        delivered_at: Some(at(1)),
        finished_at: Some(at(4)),
        ..task.clone()
    };
    same(&stored(&store, &task).await, &ended);
    made::is_fenced(report(&store, node, &TaskReport { state: TaskState::Failed, ..done(&task) }).await);
    same(&stored(&store, &task).await, &ended);
    let failed = TaskReport { state: TaskState::Failed, message: None, ..done(&neighbour) };
    report(&store, node, &failed).await.unwrap();
    let found = stored(&store, &neighbour).await;
    assert_eq!((found.state, found.message), (TaskState::Failed, None));
}

async fn a_report_on_something_older_is_refused(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let task = queued(&store, node).await;
    deliver(&store, node, 1).await;
    let said = done(&task);
    for (incarnation, generation) in [(1, 3), (3, 3), (2, 2), (2, 4)] {
        made::is_fenced(report(&store, node, &TaskReport { incarnation, generation, ..said.clone() }).await);
    }
    assert_eq!(stored(&store, &task).await.state, TaskState::Delivered);
    report(&store, node, &said).await.unwrap();
}

async fn a_report_of_an_older_session_is_refused(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let task = queued(&store, node).await;
    deliver(&store, node, 1).await;
    assert_eq!(hello(&store, node, true).await, 2);
    assert_eq!(deliver(&store, node, 2).await, [task.id]);
    let say = async |session| {
        put(&store, async |tx| {
            tx.task_report(node, &done(&task), at(4)).await?;
            tx.node_in_session(node, session).await
        })
        .await
    };
    made::is_fenced(say(1).await);
    assert_eq!(stored(&store, &task).await.state, TaskState::Delivered);
    say(2).await.unwrap();
}

async fn report_on_an_expired_task_is_fenced(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let (one, mate) = (queued(&store, node).await, queued(&store, node).await);
    let sibling = fleet::task(node, one.operation_id, "inspect");
    queue(&store, &sibling).await.unwrap();
    deliver(&store, node, 1).await;
    put(&store, async |tx| tx.task_expire(one.id, at(6)).await).await.unwrap();
    let found = stored(&store, &one).await;
    assert_eq!((found.state, found.finished_at), (TaskState::Expired, Some(at(6))));
    made::is_fenced(report(&store, node, &done(&one)).await);
    report(&store, node, &done(&mate)).await.unwrap();
    put(&store, async |tx| {
        tx.task_expire_of(one.operation_id, at(7)).await?;
        tx.task_expire_of(mate.operation_id, at(7)).await
    })
    .await
    .unwrap();
    assert_eq!(stored(&store, &one).await.finished_at, Some(at(6)), "it had expired before");
    assert_eq!(stored(&store, &sibling).await.state, TaskState::Expired);
    assert_eq!(stored(&store, &mate).await.state, TaskState::Done, "what ended is not undone");
    put(&store, async |tx| tx.task_expire(mate.id, at(8)).await).await.unwrap();
    assert_eq!(stored(&store, &mate).await.state, TaskState::Done);
    assert!(deliver(&store, node, 1).await.is_empty());
}

async fn rows_ended_before_the_cutoff_are_pruned(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let (old, new, open) =
        (queued(&store, node).await, queued(&store, node).await, queued(&store, node).await);
    deliver(&store, node, 1).await;
    report(&store, node, &done(&old)).await.unwrap();
    put(&store, async |tx| tx.task_expire(new.id, at(9)).await).await.unwrap();
    assert_eq!(put(&store, async |tx| tx.task_prune(at(9)).await).await.unwrap(), 1);
    assert!(store.task_lookup(old.id).await.unwrap().is_none());
    assert_eq!(put(&store, async |tx| tx.task_prune(at(1000)).await).await.unwrap(), 1);
    assert_eq!(stored(&store, &open).await.state, TaskState::Delivered, "what is open is kept");
}

async fn open_tasks_are_found_by_key_and_node_and_removed_by_operation(store: Store) {
    let node = agent(&store, "one").await;
    let (one, two) = (queued(&store, node).await, queued(&store, node).await);
    same(&store.task_by_key(one.operation_id, "prepare").await.unwrap().unwrap(), &one);
    assert!(store.task_by_key(one.operation_id, "other").await.unwrap().is_none());
    let open = async || -> Vec<TaskId> {
        store.task_open_on(node).await.unwrap().into_iter().map(|task| task.id).collect()
    };
    assert_eq!(open().await, [one.id, two.id]);
    put(&store, async |tx| tx.task_expire(one.id, at(3)).await).await.unwrap();
    assert_eq!(open().await, [two.id]);
    put(&store, async |tx| tx.task_forget_of(two.operation_id).await).await.unwrap();
    assert!(store.task_lookup(two.id).await.unwrap().is_none());
    assert!(store.task_lookup(one.id).await.unwrap().is_some());
}

async fn tasks_of_one_lease_are_counted_by_how_their_keys_begin(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let operation = made::id();
    let mut all = Vec::new();
    for (key, generation) in [("a/1", 2), ("a/2", 2), ("a/3", 1), ("b/1", 2), ("ab/1", 2)] {
        let task = Task { generation, ..fleet::task(node, operation, key) };
        queue(&store, &task).await.unwrap();
        all.push(task);
    }
    queue(&store, &Task { generation: 2, ..fleet::task(node, made::id(), "a/1") }).await.unwrap();
    report(&store, node, &done(&all[0])).await.unwrap();
    let counted = async |prefix: &str, generation| {
        put(&store, async |tx| tx.task_count_of(operation, prefix, generation).await).await.unwrap()
    };
    assert_eq!(counted("a/", 2).await, (2, 1));
    assert_eq!(counted("a/", 1).await, (1, 1));
    assert_eq!(counted("c/", 2).await, (0, 0));
}

async fn a_task_that_is_set_aside_leaves_its_key_to_another(store: Store) {
    let node = agent(&store, "gpu-1").await;
    let task = queued(&store, node).await;
    let again = Task { id: made::id(), ..task.clone() };
    for _ in 0..2 {
        put(&store, async |tx| tx.task_set_aside(task.id, &task.key, "aside").await).await.unwrap();
    }
    queue(&store, &again).await.unwrap();
    assert_eq!(stored(&store, &task).await.key, "aside");
    let found = store.task_by_key(task.operation_id, &task.key).await.unwrap();
    assert_eq!(found.map(|found| found.id), Some(again.id));
}
