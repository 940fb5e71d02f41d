//! Adapter steps: queued once, leased by one adapter at a time, and finished by the lease holder.

use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{AdapterStepFilter, Result, StepEnd, Store};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::app::Audience;
use muster_model::instance::Instance;
use serde_json::json;

use crate::made::catalog::{adapter_step, granted, launched, offered, published};
use crate::made::{FIRST, at, fleet, id, is_fenced, put, same};

on_both![
    a_step_reads_back_as_it_was_asked_for,
    the_same_thing_is_asked_for_once,
    a_step_is_leased_by_one_at_a_time,
    a_lease_only_becomes_longer,
    a_lease_that_lapsed_is_over_and_told_apart,
    holder_of_a_lost_lease_is_fenced,
    a_step_that_was_given_back_is_offered_when_it_is_due,
    cancelling_a_step_fences_its_holder,
    one_look_at_an_instance_at_a_time,
    steps_are_listed_and_forgotten,
    steps_of_members_are_known_while_they_are_open_and_after_they_ended,
];

const LONG: SignedDuration = SignedDuration::from_mins(5);

async fn instance(store: &Store) -> Instance {
    let (_, project) = fleet::place(store).await;
    let app = offered(store, &project, "pool", Audience::Project).await;
    let version = published(store, &app, "1").await;
    let (_, account) = granted(store, &project, &app).await;
    launched(store, &project, &version, &account, "farm").await
}

async fn queued(store: &Store, instance: &Instance, key: &str) -> AdapterStep {
    let step = adapter_step(instance, key);
    put(store, async |tx| tx.adapter_step_queue(&step).await).await.unwrap();
    step
}

async fn cancel(store: &Store, step: &AdapterStep, seconds: i64) {
    let operation = step.operation_id.unwrap();
    put(store, async |tx| tx.adapter_step_cancel_of(operation, at(seconds)).await).await.unwrap();
}

async fn lease(store: &Store, of: &Instance, seconds: i64, length: SignedDuration) -> Vec<AdapterStep> {
    let account = of.operator_account_id;
    put(store, async |tx| tx.adapter_step_lease(account, "a", at(seconds), length, 10).await).await.unwrap()
}

async fn stored(store: &Store, step: &AdapterStep) -> AdapterStep {
    store.adapter_step_lookup(step.id).await.unwrap().unwrap()
}

async fn keep(
    store: &Store,
    step: &AdapterStep,
    generation: i64,
    length: SignedDuration,
) -> Result<AdapterStep> {
    put(store, async |tx| {
        tx.adapter_step_keep(step.id, generation, at(20), length, Some("on"), Some(5)).await
    })
    .await
}

async fn a_step_reads_back_as_it_was_asked_for(store: Store) {
    let of = instance(&store).await;
    let step = queued(&store, &of, "join").await;
    same(&stored(&store, &step).await, &step);
    let operation = step.operation_id.unwrap();
    same(&store.adapter_step_of(operation).await.unwrap(), &vec![step]);
}

async fn the_same_thing_is_asked_for_once(store: Store) {
    let of = instance(&store).await;
    let step = queued(&store, &of, "join").await;
    let again = AdapterStep { id: id(), input: json!({"other": 1}), ..step.clone() };
    put(&store, async |tx| tx.adapter_step_queue(&again).await).await.unwrap();
    let all = store.adapter_step_of(step.operation_id.unwrap()).await.unwrap();
    same(&all, &vec![step]);
}

async fn a_step_is_leased_by_one_at_a_time(store: Store) {
    let of = instance(&store).await;
    let step = queued(&store, &of, "join").await;
    let account = of.operator_account_id;
    assert!(store.adapter_step_any(account, at(10)).await.unwrap());
    assert_eq!(store.adapter_step_accounts_waiting(at(10)).await.unwrap(), [account]);
    assert!(lease(&store, &of, -1, LONG).await.is_empty(), "it is not due yet");
    let other =
        put(&store, async |tx| tx.adapter_step_lease(id(), "b", at(10), LONG, 10).await).await.unwrap();
    assert!(other.is_empty(), "it is another account's");
    let leased = lease(&store, &of, 10, LONG).await;
    let one = &leased[0];
    assert_eq!((one.id, one.state, one.generation, one.attempts), (step.id, AdapterStepState::Leased, 1, 1));
    assert_eq!(one.holder, "a");
    assert!(lease(&store, &of, 11, LONG).await.is_empty());
    assert!(!store.adapter_step_any(account, at(11)).await.unwrap());
    assert!(store.adapter_step_accounts_waiting(at(11)).await.unwrap().is_empty());
}

async fn a_lease_only_becomes_longer(store: Store) {
    let of = instance(&store).await;
    queued(&store, &of, "join").await;
    let step = lease(&store, &of, 10, LONG).await.remove(0);
    let short = keep(&store, &step, 1, SignedDuration::from_secs(1)).await.unwrap();
    assert_eq!(short.leased_until, step.leased_until);
    assert_eq!((short.message.as_deref(), short.percent), (Some("on"), Some(5)));
    let long = keep(&store, &step, 1, LONG * 2).await.unwrap();
    assert!(long.leased_until > step.leased_until);
    put(&store, async |tx| tx.adapter_step_fence(step.id, 1, at(20)).await).await.unwrap();
}

async fn a_lease_that_lapsed_is_over_and_told_apart(store: Store) {
    let of = instance(&store).await;
    queued(&store, &of, "join").await;
    let step = lease(&store, &of, 10, SignedDuration::from_millis(1)).await.remove(0);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let account = of.operator_account_id;
    assert!(store.adapter_step_any(account, at(20)).await.unwrap(), "it is there for the next");
    let lapsed = put(&store, async |tx| tx.adapter_step_lapse(account, at(20), 10).await).await.unwrap();
    assert_eq!(
        (lapsed.len(), lapsed[0].state, lapsed[0].holder.as_str()),
        (1, AdapterStepState::Queued, "a")
    );
    is_fenced(keep(&store, &step, 1, LONG).await);
    let again = put(&store, async |tx| tx.adapter_step_lapse(account, at(20), 10).await).await.unwrap();
    assert!(again.is_empty());
    let next = lease(&store, &of, 21, LONG).await.remove(0);
    assert_eq!((next.id, next.generation, next.attempts), (step.id, 2, 2));
}

async fn holder_of_a_lost_lease_is_fenced(store: Store) {
    let of = instance(&store).await;
    queued(&store, &of, "join").await;
    let step = lease(&store, &of, 10, LONG).await.remove(0);
    let end =
        StepEnd { message: Some("done".to_owned()), reason: None, adapter_detail: Some(json!({"a": 1})) };
    for wrong in [0, 2] {
        is_fenced(keep(&store, &step, wrong, LONG).await);
        is_fenced(put(&store, async |tx| tx.adapter_step_fence(step.id, wrong, at(20)).await).await);
        let done = AdapterStepState::Done;
        is_fenced(
            put(&store, async |tx| tx.adapter_step_end(step.id, wrong, done, &end, at(20)).await).await,
        );
        is_fenced(
            put(&store, async |tx| tx.adapter_step_later(step.id, wrong, at(20), at(30), &end).await).await,
        );
    }
    let done = AdapterStepState::Done;
    let ended =
        put(&store, async |tx| tx.adapter_step_end(step.id, 1, done, &end, at(20)).await).await.unwrap();
    assert_eq!(
        (ended.state, ended.adapter_detail.clone(), ended.finished_at),
        (done, Some(json!({"a": 1})), Some(at(20)))
    );
    is_fenced(put(&store, async |tx| tx.adapter_step_end(step.id, 1, done, &end, at(21)).await).await);
    is_fenced(put(&store, async |tx| tx.adapter_step_fence(step.id, 1, at(20)).await).await);
}

async fn a_step_that_was_given_back_is_offered_when_it_is_due(store: Store) {
    let of = instance(&store).await;
    queued(&store, &of, "join").await;
    let step = lease(&store, &of, 10, LONG).await.remove(0);
    let end =
        StepEnd { message: Some("busy".to_owned()), reason: Some("busy".to_owned()), adapter_detail: None };
    let later =
        put(&store, async |tx| tx.adapter_step_later(step.id, 1, at(20), at(50), &end).await).await.unwrap();
    assert_eq!(
        (later.state, later.due_at, later.reason.as_deref()),
        (AdapterStepState::Queued, at(50), Some("busy"))
    );
    assert!(lease(&store, &of, 49, LONG).await.is_empty());
    assert_eq!(lease(&store, &of, 50, LONG).await[0].generation, 2);
}

async fn cancelling_a_step_fences_its_holder(store: Store) {
    let of = instance(&store).await;
    let (one, two) = (queued(&store, &of, "join").await, queued(&store, &of, "drain").await);
    lease(&store, &of, 10, LONG).await;
    cancel(&store, &one, 20).await;
    cancel(&store, &two, 20).await;
    for step in [&one, &two] {
        let cancelled = stored(&store, step).await;
        assert_eq!((cancelled.state, cancelled.generation), (AdapterStepState::Cancelled, 2));
        is_fenced(keep(&store, step, 1, LONG).await);
        is_fenced(keep(&store, step, 2, LONG).await);
    }
}

async fn one_look_at_an_instance_at_a_time(store: Store) {
    let of = instance(&store).await;
    let look =
        || AdapterStep { verb: AdapterVerb::Reconcile, operation_id: None, ..adapter_step(&of, "reconcile") };
    let (first, second) = (look(), look());
    for step in [&first, &second] {
        put(&store, async |tx| tx.adapter_step_queue(step).await).await.unwrap();
    }
    assert!(store.adapter_step_lookup(second.id).await.unwrap().is_none());
    put(&store, async |tx| tx.adapter_step_forget(first.id).await).await.unwrap();
    put(&store, async |tx| tx.adapter_step_queue(&second).await).await.unwrap();
    assert!(store.adapter_step_lookup(second.id).await.unwrap().is_some());
}

async fn steps_are_listed_and_forgotten(store: Store) {
    let of = instance(&store).await;
    let (one, two) = (queued(&store, &of, "join").await, queued(&store, &of, "drain").await);
    cancel(&store, &one, 20).await;
    let list = async |filter| -> Vec<_> {
        let found = store.adapter_step_list(FIRST, of.project_id, filter).await.unwrap();
        found.into_iter().map(|step| step.id).collect()
    };
    assert_eq!(list(AdapterStepFilter::default()).await, [one.id, two.id]);
    let queued =
        AdapterStepFilter { state: Some(AdapterStepState::Queued), instance: Some(of.id), operator: None };
    assert_eq!(list(queued).await, [two.id]);
    assert!(list(AdapterStepFilter { instance: Some(id()), state: None, operator: None }).await.is_empty());
    let prune = async |until| put(&store, async |tx| tx.adapter_step_prune(at(until)).await).await.unwrap();
    assert_eq!((prune(20).await, prune(21).await), (0, 1));
    assert_eq!(list(AdapterStepFilter::default()).await, [two.id]);
}

async fn steps_of_members_are_known_while_they_are_open_and_after_they_ended(store: Store) {
    let of = instance(&store).await;
    let known = async |since| {
        put(&store, async |tx| tx.adapter_step_of_members(of.id, at(since)).await).await.unwrap()
    };
    let look =
        AdapterStep { verb: AdapterVerb::Reconcile, operation_id: None, ..adapter_step(&of, "reconcile") };
    put(&store, async |tx| tx.adapter_step_queue(&look).await).await.unwrap();
    assert!(!known(0).await, "a look is no step of a member");
    let step = queued(&store, &of, "join").await;
    assert!(known(1000).await, "it waits");
    cancel(&store, &step, 50).await;
    assert_eq!((known(40).await, known(50).await, known(51).await), (true, true, false));
}
