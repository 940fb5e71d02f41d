//! Refusals: the first of a minute is recorded immediately, the rest are counted.

use muster_db::Store;
use muster_model::Scope;
use muster_model::audit::Entry;
use serde_json::json;

use crate::made::{self, put};

on_both![the_first_of_a_minute_is_told_and_the_rest_are_counted, only_minutes_that_are_over_are_taken];

async fn count(store: &Store, entry: &Entry, minute: i64) {
    put(store, async |tx| tx.refusal_count(entry, minute, made::uuid()).await).await.unwrap();
}

async fn the_first_of_a_minute_is_told_and_the_rest_are_counted(store: Store) {
    let tenant = Scope::Tenant(made::id());
    let entry = made::entry("usr_1", "tenant.create", tenant);
    count(&store, &entry, 7).await;
    let told = put(&store, async |tx| tx.outbox_take(9).await).await.unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].chain.clone(), told[0].events.as_str()), (tenant.chain(), "[]"));
    assert_eq!(told[0].entry, serde_json::to_string(&entry).unwrap());

    let last = Entry { detail: json!({"detail": "the last"}), ..entry.clone() };
    count(&store, &entry, 7).await;
    count(&store, &last, 7).await;
    assert_eq!(store.outbox_count().await.unwrap(), 0, "the rest of the minute is only counted");

    // Another actor, action, code or minute starts its own count.
    count(&store, &made::entry("usr_2", "tenant.create", tenant), 7).await;
    count(&store, &made::entry("usr_1", "tenant.delete", tenant), 7).await;
    count(&store, &Entry { code: Some("not_found".to_owned()), ..entry.clone() }, 7).await;
    count(&store, &entry, 8).await;
    assert_eq!(store.outbox_count().await.unwrap(), 4);

    let mut taken = put(&store, async |tx| tx.refusal_take(8).await).await.unwrap();
    taken.sort();
    assert_eq!(taken.iter().map(|(count, _)| *count).collect::<Vec<_>>(), [1, 1, 1, 3]);
    let text = &taken[3].1;
    assert_eq!(serde_json::from_str::<Entry>(text).unwrap().detail, json!({"detail": "the last"}));
}

async fn only_minutes_that_are_over_are_taken(store: Store) {
    let entry = made::entry("usr_1", "tenant.create", Scope::Platform);
    for minute in [5, 6, 6, 7] {
        count(&store, &entry, minute).await;
    }
    let take = async |before: i64| {
        let taken = put(&store, async |tx| tx.refusal_take(before).await).await.unwrap();
        let mut counts: Vec<i64> = taken.into_iter().map(|(count, _)| count).collect();
        counts.sort_unstable();
        counts
    };
    assert!(take(5).await.is_empty());
    assert_eq!(take(7).await, [1, 2]);
    assert!(take(7).await.is_empty(), "what was taken is gone");
    assert_eq!(take(8).await, [1]);
    // A minute that was taken and recurs is recorded again.
    let before = store.outbox_count().await.unwrap();
    count(&store, &entry, 6).await;
    assert_eq!(store.outbox_count().await.unwrap(), before + 1);
}
