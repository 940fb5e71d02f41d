//! Operations: stored, leased, locked, advanced, ended.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_db::{OperationFilter, Page, Result, Store};
use muster_ids::{Env, OperationId, TypedId as _};
use muster_model::operation::{Blocked, Operation, OperationState, ResolveAction, StepState};
use serde_json::json;

use crate::made::{self, FIRST, at, fleet, put, same, uuid};

on_both![
    an_operation_reads_back_as_it_was_opened,
    due_operations_are_leased_oldest_first_and_to_one_holder,
    a_lease_lapses_and_its_holder_is_fenced,
    extended_lease_holds_and_a_released_one_is_free_immediately,
    a_step_is_written_by_the_holder_of_the_lease_only,
    a_wake_up_during_a_step_is_not_slept_over,
    those_that_touch_the_same_thing_come_one_after_the_other,
    acquired_lock_also_holds_against_earlier_operations,
    ended_operation_is_history_and_wakes_its_waiters,
    only_its_holder_ends_it,
    a_request_to_end_it_is_not_forgotten,
    seizing_an_operation_fences_its_holder,
    those_in_line_are_woken_from_the_front,
    blocked_state_requires_a_reason_and_no_other_has_one,
    lists_hold_what_is_finished_and_what_is_not,
    the_parts_of_an_operation_are_listed_finished_or_not,
    operations_are_counted_by_state,
];

const LONG: SignedDuration = SignedDuration::from_secs(60);
const SHORT: SignedDuration = SignedDuration::from_millis(300);

/// PostgreSQL uses its own clock and SQLite the caller's: with the real time, both behave alike.
fn now() -> Timestamp {
    Env::system().now()
}

/// Stores an operation that is due, on a subject of its own.
async fn due(store: &Store) -> Operation {
    let thing = uuid();
    fleet::opened(store, Operation { due_at: now(), ..fleet::operation(thing, &[thing]) }).await
}

async fn lease(store: &Store, holder: &str, length: SignedDuration) -> Vec<Operation> {
    store.operation_lease(holder, length, now(), 10).await.unwrap()
}

async fn leased(store: &Store, operation: &Operation) -> Operation {
    let all = lease(store, "a", LONG).await;
    all.into_iter().find(|leased| leased.id == operation.id).expect("it was due")
}

async fn stored(store: &Store, id: OperationId) -> Operation {
    store.operation_lookup(id).await.unwrap().unwrap()
}

async fn advance(store: &Store, operation: &Operation, keep: Option<SignedDuration>) -> Result<()> {
    put(store, async |tx| tx.operation_advance(operation, now(), keep).await).await
}

async fn end(store: &Store, operation: &Operation) -> Result<()> {
    put(store, async |tx| tx.operation_end(operation, at(7)).await).await
}

fn ids(operations: &[Operation]) -> Vec<OperationId> {
    operations.iter().map(|operation| operation.id).collect()
}

async fn an_operation_reads_back_as_it_was_opened(store: Store) {
    let (acme, project) = fleet::place(&store).await;
    let things = [uuid(), uuid()];
    let mut asked = Operation {
        tenant_id: Some(acme.id),
        project_id: Some(project.id),
        supersedes: Some(made::id()),
        parent_id: Some(made::id()),
        waiting: Some("for a node".to_owned()),
        reason: Some("no_capacity".to_owned()),
        message: Some("no node".to_owned()),
        ..fleet::operation(things[0], &things)
    };
    asked.steps[0].state = StepState::Done;
    asked.steps[0].output = json!({"node": 1});
    let asked = fleet::opened(&store, asked).await;
    same(&stored(&store, asked.id).await, &asked);
    same(&store.operation_open_on(things[0]).await.unwrap(), &[&asked]);
    assert!(store.operation_open_on(things[1]).await.unwrap().is_empty(), "it is touched, not the subject");
    assert!(store.operation_lookup(made::id()).await.unwrap().is_none());
    made::is_conflict(put(&store, async |tx| tx.operation_open(&asked).await).await);
    let ended = Operation { state: OperationState::Succeeded, ..fleet::operation(uuid(), &[]) };
    made::is_conflict(put(&store, async |tx| tx.operation_open(&ended).await).await);
}

async fn due_operations_are_leased_oldest_first_and_to_one_holder(store: Store) {
    let open = async |seconds: i64| {
        let due_at = now() + SignedDuration::from_secs(seconds);
        fleet::opened(&store, Operation { due_at, ..fleet::operation(uuid(), &[]) }).await
    };
    assert!(!store.operation_any_due(now()).await.unwrap());
    open(3600).await;
    assert!(!store.operation_any_due(now()).await.unwrap());
    let (second, first, third) = (open(-20).await, open(-30).await, open(-10).await);
    assert!(store.operation_any_due(now()).await.unwrap());
    let some = store.operation_lease("a", LONG, now(), 2).await.unwrap();
    let mut taken = ids(&some);
    taken.sort();
    assert_eq!(taken, [second.id, first.id], "those that waited longest, in no order");
    assert!(some.iter().all(|operation| operation.generation == 1));
    let rest = lease(&store, "b", LONG).await;
    assert_eq!(ids(&rest), [third.id]);
    same(&rest[0], &Operation { generation: 1, ..third });
    assert!(lease(&store, "a", LONG).await.is_empty(), "not even by its holder");
}

async fn a_lease_lapses_and_its_holder_is_fenced(store: Store) {
    let operation = due(&store).await;
    let old = lease(&store, "a", SHORT).await.remove(0);
    let fence =
        async |operation: &Operation| put(&store, async |tx| tx.operation_fence(operation).await).await;
    fence(&old).await.unwrap();
    tokio::time::sleep(Duration::from_millis(350)).await;
    fence(&old).await.expect("a lease that nobody took is still good");
    let new = lease(&store, "b", LONG).await.remove(0);
    assert_eq!((new.id, new.generation), (operation.id, old.generation + 1));
    made::is_fenced(fence(&old).await);
    made::is_fenced(advance(&store, &old, Some(LONG)).await);
    made::is_fenced(end(&store, &old).await);
    fence(&new).await.unwrap();
    made::is_fenced(fence(&Operation { id: made::id(), ..new }).await);
}

async fn extended_lease_holds_and_a_released_one_is_free_immediately(store: Store) {
    let operation = due(&store).await;
    let held = leased(&store, &operation).await;
    advance(&store, &held, Some(LONG)).await.unwrap();
    assert!(lease(&store, "b", LONG).await.is_empty());
    advance(&store, &held, Some(SHORT)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(350)).await;
    let again = lease(&store, "b", LONG).await.remove(0);
    assert_eq!(again.generation, 2);
    advance(&store, &again, None).await.unwrap();
    assert_eq!(lease(&store, "a", LONG).await.remove(0).generation, 3);
}

async fn a_step_is_written_by_the_holder_of_the_lease_only(store: Store) {
    let operation = due(&store).await;
    let held = leased(&store, &operation).await;
    let mut next = Operation {
        state: OperationState::Running,
        waiting: Some("for the node".to_owned()),
        reason: Some("r".to_owned()),
        message: Some("m".to_owned()),
        due_at: at(50),
        deadline_at: at(60),
        ..held.clone()
    };
    next.steps[0].state = StepState::Running;
    next.steps[0].attempts = 1;
    put(&store, async |tx| tx.operation_advance(&next, at(40), None).await).await.unwrap();
    same(&stored(&store, held.id).await, &Operation { updated_at: at(40), version: 2, ..next.clone() });
    let older = Operation { generation: held.generation - 1, ..next.clone() };
    made::is_fenced(advance(&store, &older, None).await);
    made::is_fenced(advance(&store, &Operation { generation: held.generation + 1, ..next }, None).await);
    assert_eq!(stored(&store, held.id).await.version, 2);
}

async fn a_wake_up_during_a_step_is_not_slept_over(store: Store) {
    let operation = due(&store).await;
    let held = leased(&store, &operation).await;
    let later = now() + SignedDuration::from_hours(1);
    let sleeping = Operation { due_at: later, ..held.clone() };
    // Woken after it was leased, before the step puts it to sleep.
    put(&store, async |tx| tx.operation_wake(held.id, now()).await).await.unwrap();
    advance(&store, &sleeping, None).await.unwrap();
    let awake = stored(&store, held.id).await;
    assert!(awake.due_at <= now() && awake.wakes == 1, "{awake:?}");
    let again = leased(&store, &operation).await;
    advance(&store, &Operation { due_at: later, ..again }, None).await.unwrap();
    assert!(stored(&store, held.id).await.due_at > now(), "it sleeps now");
    assert!(!store.operation_any_due(now()).await.unwrap());
    put(&store, async |tx| tx.operation_wake(held.id, now()).await).await.unwrap();
    assert!(store.operation_any_due(now()).await.unwrap());
    put(&store, async |tx| tx.operation_wake(made::id(), now()).await).await.expect("what ended sleeps on");
}

async fn hold(store: &Store, operation: &Operation) -> Option<OperationId> {
    put(store, async |tx| tx.operation_hold(operation.id).await).await.unwrap()
}

async fn those_that_touch_the_same_thing_come_one_after_the_other(store: Store) {
    let (x, y, z) = (uuid(), uuid(), uuid());
    let open = async |exclusive_locks: &[uuid::Uuid]| {
        fleet::opened(&store, fleet::operation(exclusive_locks[0], exclusive_locks)).await
    };
    let (first, second, apart) = (open(&[x, y]).await, open(&[y, z]).await, open(&[uuid()]).await);
    let third = open(&[z]).await;
    assert_eq!(hold(&store, &second).await, Some(first.id), "it came before, though it holds nothing yet");
    assert_eq!(hold(&store, &apart).await, None);
    assert_eq!(hold(&store, &first).await, None);
    assert_eq!(hold(&store, &first).await, None, "a repeat finds that it has it");
    assert_eq!(hold(&store, &second).await, Some(first.id));
    assert_eq!(hold(&store, &third).await, Some(second.id), "nobody passes on the right");
    let ended = Operation { state: OperationState::Failed, ..first };
    end(&store, &ended).await.unwrap();
    assert_eq!((hold(&store, &second).await, hold(&store, &third).await), (None, Some(second.id)));
}

async fn acquired_lock_also_holds_against_earlier_operations(store: Store) {
    let thing = uuid();
    let first = fleet::operation(thing, &[thing]);
    let second = fleet::opened(&store, fleet::operation(thing, &[thing])).await;
    assert_eq!(hold(&store, &second).await, None);
    // Its id was generated first, but its row is inserted later.
    fleet::opened(&store, first.clone()).await;
    assert_eq!(hold(&store, &first).await, Some(second.id));
}

async fn ended_operation_is_history_and_wakes_its_waiters(store: Store) {
    let (x, y) = (uuid(), uuid());
    let parent = fleet::opened(&store, Operation { due_at: at(90), ..fleet::operation(uuid(), &[]) }).await;
    let child = Operation { parent_id: Some(parent.id), due_at: now(), ..fleet::operation(x, &[x, y]) };
    let child = fleet::opened(&store, child).await;
    let open = async |exclusive_locks: &[uuid::Uuid], state| {
        let operation =
            Operation { due_at: at(90), state, ..fleet::operation(exclusive_locks[0], exclusive_locks) };
        fleet::opened(&store, operation).await
    };
    let waiting = open(&[y], OperationState::Accepted).await;
    let under_way = open(&[y], OperationState::Running).await;
    let elsewhere = open(&[uuid()], OperationState::Accepted).await;
    let held = leased(&store, &child).await;
    assert_eq!(hold(&store, &held).await, None);
    let mut ended = Operation { state: OperationState::Succeeded, message: Some("done".to_owned()), ..held };
    ended.steps[1].state = StepState::Done;
    end(&store, &ended).await.unwrap();

    let found = stored(&store, child.id).await;
    let expected =
        Operation { finished_at: Some(at(7)), updated_at: at(7), version: ended.version + 1, ..ended };
    same(&found, &expected);
    assert!(store.operation_open_on(x).await.unwrap().is_empty());
    let woken = async |operation: &Operation| {
        let found = stored(&store, operation.id).await;
        (found.wakes, found.due_at)
    };
    assert_eq!(woken(&waiting).await, (1, at(7)));
    assert_eq!(woken(&parent).await, (1, at(7)));
    assert_eq!(woken(&under_way).await, (0, at(90)));
    assert_eq!(woken(&elsewhere).await, (0, at(90)));
    assert_eq!(hold(&store, &waiting).await, None);
}

async fn only_its_holder_ends_it(store: Store) {
    let operation = due(&store).await;
    let held = leased(&store, &operation).await;
    let ended = Operation { state: OperationState::Succeeded, ..held.clone() };
    let older = Operation { generation: 0, ..ended.clone() };
    made::is_fenced(end(&store, &older).await);
    same(&stored(&store, held.id).await, &held);
    let unfinished = Operation { state: OperationState::Running, ..held.clone() };
    made::is_conflict(end(&store, &unfinished).await);
    end(&store, &ended).await.unwrap();
    made::is_fenced(end(&store, &ended).await);
    made::is_fenced(advance(&store, &held, None).await);
}

async fn a_request_to_end_it_is_not_forgotten(store: Store) {
    let operation = due(&store).await;
    let held = leased(&store, &operation).await;
    let cancel = async |id| put(&store, async |tx| tx.operation_cancel(id, at(5)).await).await;
    cancel(held.id).await.unwrap();
    let asked = stored(&store, held.id).await;
    assert_eq!((asked.cancel_requested, asked.wakes, asked.due_at), (true, 1, at(5)));
    assert_eq!((asked.version, asked.updated_at), (2, at(5)));
    // The current step does not know of it, and does not undo it.
    advance(&store, &held, Some(LONG)).await.unwrap();
    assert!(stored(&store, held.id).await.cancel_requested);
    end(&store, &Operation { state: OperationState::Cancelled, ..held.clone() }).await.unwrap();
    made::is_gone(cancel(held.id).await);
    made::is_gone(cancel(made::id()).await);
}

async fn seizing_an_operation_fences_its_holder(store: Store) {
    let operation = due(&store).await;
    let held = leased(&store, &operation).await;
    let seized = put(&store, async |tx| tx.operation_seize(held.id).await).await.unwrap().unwrap();
    same(&seized, &Operation { generation: 2, wakes: 1, ..held.clone() });
    made::is_fenced(advance(&store, &held, None).await);
    let superseded = Operation { state: OperationState::Superseded, ..seized };
    end(&store, &superseded).await.unwrap();
    let gone = put(&store, async |tx| tx.operation_seize(held.id).await).await.unwrap();
    assert!(gone.is_none(), "it has ended");
}

async fn those_in_line_are_woken_from_the_front(store: Store) {
    use muster_model::allocation::{Allocation, AllocationState};
    let (_, project) = fleet::place(&store).await;
    let mut operations = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let asked = fleet::requested(&store, &project, name).await;
        // The second is not queued for placement.
        if name != "b" {
            let placing = Allocation { state: AllocationState::Placing, ..asked.clone() };
            fleet::moved(&store, &asked, placing).await;
        }
        let operation = Operation { due_at: at(90), ..fleet::operation(asked.id.uuid(), &[]) };
        operations.push(fleet::opened(&store, operation).await);
    }
    put(&store, async |tx| tx.operation_wake_queued(at(5), 2).await).await.unwrap();
    let mut woken = Vec::new();
    for operation in &operations {
        woken.push(stored(&store, operation.id).await.wakes);
    }
    assert_eq!(woken, [1, 0, 1, 0]);
}

async fn blocked_state_requires_a_reason_and_no_other_has_one(store: Store) {
    let blocked = Blocked {
        reason: "the node does not answer".to_owned(),
        resolvable_by: "operator".to_owned(),
        actions: vec![ResolveAction::Retry, ResolveAction::Abandon],
        since: at(0),
        escalates_at: at(30),
        escalated: true,
        by_deadline: false,
    };
    let open = async |state, blocked: Option<Blocked>| {
        put(&store, async |tx| {
            let operation = Operation { state, blocked, ..fleet::operation(uuid(), &[]) };
            tx.operation_open(&operation).await.map(|()| operation)
        })
        .await
    };
    let asked = open(OperationState::Blocked, Some(blocked.clone())).await.unwrap();
    same(&stored(&store, asked.id).await, &asked);
    made::is_conflict(open(OperationState::Blocked, None).await);
    made::is_conflict(open(OperationState::Running, Some(blocked.clone())).await);
    let running = open(OperationState::Running, None).await.unwrap();
    made::is_conflict(
        advance(&store, &Operation { state: OperationState::Blocked, ..running.clone() }, None).await,
    );
    let stuck = Operation { state: OperationState::Blocked, blocked: Some(blocked), ..running };
    advance(&store, &stuck, None).await.unwrap();
    assert_eq!(stored(&store, stuck.id).await.blocked, stuck.blocked);
}

async fn lists_hold_what_is_finished_and_what_is_not(store: Store) {
    let (acme, project) = fleet::place(&store).await;
    let thing = uuid();
    let mut all = Vec::new();
    for number in 0..4 {
        let subject = if number < 2 { thing } else { uuid() };
        let mut operation = fleet::operation(subject, &[]);
        if number > 0 {
            (operation.tenant_id, operation.project_id) = (Some(acme.id), Some(project.id));
        }
        let operation = fleet::opened(&store, operation).await;
        if number % 2 == 1 {
            end(&store, &Operation { state: OperationState::Failed, ..operation.clone() }).await.unwrap();
        }
        all.push(operation.id);
    }
    let list = async |page: Page, filter: OperationFilter| {
        let found = store.operation_list(page, filter).await.unwrap();
        found
            .iter()
            .map(|operation| all.iter().position(|id| *id == operation.id).unwrap())
            .collect::<Vec<_>>()
    };
    let any = OperationFilter::default();
    assert_eq!(list(FIRST, any).await, [0, 1, 2, 3]);
    assert_eq!(list(Page { size: 3, ..FIRST }, any).await, [0, 1, 2]);
    assert_eq!(list(made::page(all[1], 1), any).await, [2]);
    assert_eq!(list(FIRST, OperationFilter { project: Some(project.id), ..any }).await, [1, 2, 3]);
    assert_eq!(list(FIRST, OperationFilter { subject: Some(thing), ..any }).await, [0, 1]);
    let failed = OperationFilter { state: Some(OperationState::Failed), ..any };
    assert_eq!(list(FIRST, failed).await, [1, 3]);
    let accepted = OperationFilter { state: Some(OperationState::Accepted), subject: Some(thing), ..any };
    assert_eq!(list(FIRST, accepted).await, [0]);
    assert!(list(FIRST, OperationFilter { project: Some(made::id()), ..any }).await.is_empty());
}

async fn the_parts_of_an_operation_are_listed_finished_or_not(store: Store) {
    let parent = fleet::opened(&store, fleet::operation(uuid(), &[])).await;
    let part = || Operation { parent_id: Some(parent.id), ..fleet::operation(uuid(), &[]) };
    let (a, b) = (fleet::opened(&store, part()).await, fleet::opened(&store, part()).await);
    fleet::opened(&store, fleet::operation(uuid(), &[])).await;
    end(&store, &Operation { state: OperationState::Succeeded, ..b.clone() }).await.unwrap();
    let mut parts = store.operation_children(parent.id).await.unwrap();
    parts.sort_by_key(|part| part.id);
    let stands: Vec<_> = parts.iter().map(|part| (part.id, part.state, part.kind)).collect();
    let kind = a.kind;
    assert_eq!(stands, [(a.id, OperationState::Accepted, kind), (b.id, OperationState::Succeeded, kind)]);
    assert!(store.operation_children(made::id()).await.unwrap().is_empty());
}

async fn operations_are_counted_by_state(store: Store) {
    assert!(store.operation_count().await.unwrap().is_empty());
    for state in [OperationState::Accepted, OperationState::Running, OperationState::Running] {
        fleet::opened(&store, Operation { state, ..fleet::operation(uuid(), &[]) }).await;
    }
    let ended = fleet::opened(&store, fleet::operation(uuid(), &[])).await;
    end(&store, &Operation { state: OperationState::Failed, ..ended }).await.unwrap();
    let counts = store.operation_count().await.unwrap();
    assert_eq!(counts, [("accepted".to_owned(), 1), ("running".to_owned(), 2)]);
}
