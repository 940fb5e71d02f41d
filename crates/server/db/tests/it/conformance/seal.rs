//! The sealer's work: take in order, number, write.

use muster_db::{SealBatch, Store};
use muster_model::Scope;
use uuid::Uuid;

use crate::made::{self, put, same};
use crate::sealer::Sealer;

on_both![
    rows_are_taken_in_the_order_of_their_ids,
    rolled_back_round_keeps_its_outbox_entries,
    counters_start_empty_and_move_on,
    a_number_is_given_once,
    any_text_and_any_data_survive,
    a_round_without_events_is_written,
];

async fn leave(store: &Store, id: Uuid, entry: &str) {
    put(store, async |tx| tx.outbox_insert(id, "platform", entry, "[]").await).await.unwrap();
}

async fn rows_are_taken_in_the_order_of_their_ids(store: Store) {
    let ids: Vec<Uuid> = (0..5).map(|_| made::uuid()).collect();
    for n in [3, 0, 4, 1, 2] {
        leave(&store, ids[n], &format!("entry {n}")).await;
    }
    made::is_conflict(
        put(&store, async |tx| tx.outbox_insert(ids[0], "platform", "again", "[]").await).await,
    );
    let take = async |limit: i64| {
        let taken = put(&store, async |tx| tx.outbox_take(limit).await).await.unwrap();
        taken.into_iter().map(|row| row.entry).collect::<Vec<_>>()
    };
    assert_eq!(take(2).await, ["entry 0", "entry 1"]);
    assert_eq!(store.outbox_count().await.unwrap(), 3);
    assert_eq!(take(9).await, ["entry 2", "entry 3", "entry 4"]);
    assert!(take(9).await.is_empty());
    assert!(!store.outbox_has_rows().await.unwrap());
}

async fn rolled_back_round_keeps_its_outbox_entries(store: Store) {
    leave(&store, made::uuid(), "entry").await;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.outbox_take(9).await.unwrap().len(), 1);
    tx.rollback().await;
    assert_eq!(store.outbox_count().await.unwrap(), 1);
}

async fn counters_start_empty_and_move_on(store: Store) {
    let names = ["audit:platform", "event:platform", "event:never"].map(str::to_owned);
    let heads = async || {
        let mut heads = put(&store, async |tx| tx.stream_heads(&names).await).await.unwrap();
        heads.sort();
        heads
    };
    assert!(heads().await.is_empty());
    let mut sealer = Sealer::default();
    for round in 1..=2 {
        let entry = sealer.entry(Scope::Platform, "usr_1", "tenant.create", round);
        sealer.event(made::draft("dev.muster.tenant.created.v1", Scope::Platform, round));
        sealer.event(made::draft("dev.muster.tenant.updated.v1", Scope::Platform, round));
        sealer.seal(&store).await;
        let expected = [
            ("audit:platform".to_owned(), round, Some(entry.hash)),
            ("event:platform".to_owned(), 2 * round, None),
        ];
        assert_eq!(heads().await, expected);
    }
    assert!(put(&store, async |tx| tx.stream_heads(&[]).await).await.unwrap().is_empty());
}

/// Two sealers that both believe to hold the lease would assign a number twice; the unique keys reject the second.
async fn a_number_is_given_once(store: Store) {
    let tenant = Scope::Tenant(made::id());
    let round = || {
        let mut sealer = Sealer::default();
        sealer.entry(tenant, "usr_1", "tenant.update", 1);
        sealer.event(made::draft("dev.muster.tenant.updated.v1", tenant, 1));
        sealer.round()
    };
    put(&store, async |tx| tx.seal(&round()).await).await.unwrap();
    let (twice, audit, events) = (round(), round(), round());
    let audit = SealBatch { events: Vec::new(), ..audit };
    let events = SealBatch { audit: Vec::new(), ..events };
    for batch in [twice, audit, events] {
        made::is_conflict(put(&store, async |tx| tx.seal(&batch).await).await);
    }
    // The tenant's numbers are guarded like the platform's.
    let mut shifted = round();
    shifted.audit.clear();
    shifted.events[0]["platform_sequence"] = 2.into();
    made::is_conflict(put(&store, async |tx| tx.seal(&shifted).await).await);
}

async fn any_text_and_any_data_survive(store: Store) {
    let text = "{\"a\":\"quote \\\" backslash \\\\ newline \\n nul \\u0000 ümläut 漢字 🚀 $1 ' ; --\"}  ";
    let data = serde_json::json!({
        "a": "quote \" backslash \\ newline \n 🚀 ' ; --", "b": [1, -2, 3.5, true, null, {}], "c": {"d": []},
    });
    let scope = Scope::Project(made::id(), made::id());
    let mut sealer = Sealer::default();
    let entry = sealer.text(scope, "usr_'1", "odd.\"action", 3, text);
    let mut draft = made::draft("dev.muster.odd.v1", scope, 5);
    (draft.subject, draft.data) = ("/v1/'\"\\🚀".to_owned(), data);
    let event = sealer.event(draft);
    for plain in
        [serde_json::json!("text"), serde_json::json!(7), serde_json::json!(null), serde_json::json!([])]
    {
        let mut draft = made::draft("dev.muster.plain.v1", scope, 6);
        draft.data = plain;
        sealer.event(draft);
    }
    sealer.seal(&store).await;
    let filter = muster_db::AuditFilter { limit: 9, ..Default::default() };
    same(&store.audit_list(&scope.chain(), &filter).await.unwrap(), &[&entry]);
    let events =
        store.event_list(scope, &muster_db::EventFilter { limit: 9, ..Default::default() }).await.unwrap();
    same(&events[0], &event);
    let plain: Vec<String> = events[1..].iter().map(|event| event.draft.data.to_string()).collect();
    assert_eq!(plain, ["\"text\"", "7", "null", "[]"]);
}

async fn a_round_without_events_is_written(store: Store) {
    let mut sealer = Sealer::default();
    sealer.entry(Scope::Platform, "usr_1", "user.create", 1);
    sealer.seal(&store).await;
    assert_eq!(store.audit_head("platform").await.unwrap().sequence, 1);
    assert_eq!(store.event_stream_head(Scope::Platform).await.unwrap(), (0, 0));
}
