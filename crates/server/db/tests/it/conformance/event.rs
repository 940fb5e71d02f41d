//! Sealed events, by stream and by type.

use muster_db::{EventFilter, Store};
use muster_ids::TenantId;
use muster_model::Scope;
use muster_model::event::Event;

use crate::made::{self, same};
use crate::sealer::Sealer;

on_both![
    a_stream_holds_what_belongs_to_its_scope,
    a_stream_goes_on_after_a_number,
    types_are_matched_whole_or_by_their_beginning,
    an_event_reads_back_as_it_was_written,
];

fn filter(after: i64, event_type: Option<&str>, limit: i64) -> EventFilter {
    EventFilter { after, event_type: event_type.map(str::to_owned), limit, ..EventFilter::default() }
}

struct Streams {
    acme: TenantId,
    train: Scope,
    events: Vec<Event>,
}

/// Six events: platform, acme, acme's train, globex, train, train.
async fn streams(store: &Store) -> Streams {
    let (acme, globex) = (made::id(), made::id());
    let train = Scope::Project(acme, made::id());
    let mut sealer = Sealer::default();
    let events = [
        ("dev.muster.user.created.v1", Scope::Platform),
        ("dev.muster.project.created.v1", Scope::Tenant(acme)),
        ("dev.muster.webhook.created.v1", train),
        ("dev.muster.project.created.v1", Scope::Tenant(globex)),
        ("dev.muster.webhook.updated.v1", train),
        ("dev.muster.webhook_x.v1", train),
    ];
    let events = events
        .into_iter()
        .enumerate()
        .map(|(n, (event_type, scope))| sealer.event(made::draft(event_type, scope, n as i64)))
        .collect();
    sealer.seal(store).await;
    Streams { acme, train, events }
}

async fn a_stream_holds_what_belongs_to_its_scope(store: Store) {
    let Streams { acme, train, events } = streams(&store).await;
    let list = async |scope: Scope| store.event_list(scope, &filter(0, None, 100)).await.unwrap();
    same(&list(Scope::Platform).await, &events);
    same(&list(Scope::Tenant(acme)).await, &[&events[1], &events[2], &events[4], &events[5]]);
    same(&list(train).await, &[&events[2], &events[4], &events[5]]);
    assert!(list(Scope::Tenant(made::id())).await.is_empty());
    assert!(list(Scope::Project(acme, made::id())).await.is_empty());
    for scope in [Scope::Platform, Scope::Tenant(acme), train] {
        let numbers: Vec<Option<i64>> =
            list(scope).await.iter().map(|event| event.sequence_in(scope)).collect();
        assert_eq!(numbers, (1..=numbers.len() as i64).map(Some).collect::<Vec<_>>(), "gapless in {scope:?}");
        assert_eq!(store.event_stream_head(scope).await.unwrap(), (numbers.len() as i64, 0));
    }
    assert_eq!(store.event_stream_head(Scope::Tenant(made::id())).await.unwrap(), (0, 0));
}

async fn a_stream_goes_on_after_a_number(store: Store) {
    let Streams { acme, train, events } = streams(&store).await;
    let list = async |scope: Scope, after: i64, limit: i64| {
        store.event_list(scope, &filter(after, None, limit)).await.unwrap()
    };
    same(&list(Scope::Platform, 4, 100).await, &events[4..]);
    same(&list(Scope::Platform, 1, 2).await, &events[1..3]);
    same(&list(Scope::Tenant(acme), 1, 2).await, &[&events[2], &events[4]]);
    same(&list(train, 0, 2).await, &[&events[2], &events[4]]);
    same(&list(train, 2, 100).await, &[&events[5]]);
    assert!(list(train, 3, 100).await.is_empty());
}

async fn types_are_matched_whole_or_by_their_beginning(store: Store) {
    let Streams { acme, train, events } = streams(&store).await;
    // A PostgreSQL database may use a collation that ignores dots or has no last letter.
    if store.kind() == "postgres" {
        store
            .sabotage("CREATE COLLATION by_language (provider = icu, locale = 'en-u-ka-shifted')")
            .await
            .unwrap();
        store.sabotage("ALTER TABLE events ALTER COLUMN type TYPE TEXT COLLATE by_language").await.unwrap();
    }
    let list = async |scope: Scope, pattern: &str| {
        let found = store.event_list(scope, &filter(0, Some(pattern), 100)).await.unwrap();
        found.into_iter().map(|event| event.platform_sequence).collect::<Vec<_>>()
    };
    assert_eq!(list(Scope::Platform, "dev.muster.project.created.v1").await, [2, 4]);
    assert_eq!(list(Scope::Platform, "dev.muster.webhook.*").await, [3, 5]);
    assert_eq!(list(Scope::Platform, "dev.muster.webhook*").await, [3, 5, 6]);
    assert_eq!(list(Scope::Platform, "dev.muster.webhook.created.v1*").await, [3]);
    assert_eq!(list(Scope::Platform, "*").await, (1..=events.len() as i64).collect::<Vec<_>>());
    assert_eq!(list(Scope::Tenant(acme), "dev.muster.project.created.v1").await, [2]);
    assert_eq!(list(Scope::Tenant(acme), "dev.muster.webhook.*").await, [3, 5]);
    assert_eq!(list(train, "dev.muster.webhook.updated.v1").await, [5]);
    assert_eq!(list(train, "dev.muster.*").await, [3, 5, 6]);
    assert_eq!(list(train, "dev.muster.project.*").await, Vec::<i64>::new());
    // Only a trailing star is a wildcard.
    for literal in
        ["dev.muster.webhook.", "", "*.v1", "dev.*.created.v1", "dev.muster.webhook%", "dev.muster.webhook_*"]
    {
        let expected: &[i64] = if literal == "dev.muster.webhook_*" { &[6] } else { &[] };
        assert_eq!(list(Scope::Platform, literal).await, expected, "{literal:?}");
    }
    let after =
        store.event_list(Scope::Platform, &filter(3, Some("dev.muster.webhook.*"), 100)).await.unwrap();
    same(&after, &[&events[4]]);
}

async fn an_event_reads_back_as_it_was_written(store: Store) {
    let mut sealer = Sealer::default();
    // Times at the epoch and far from it, to the microsecond: a float on the way would round them.
    let times = [0, 1, 999_999, 1_790_000_000_000_001, 4_102_444_799_999_999];
    let written: Vec<Event> = times
        .into_iter()
        .map(|micros| {
            let mut draft = made::draft("dev.muster.user.created.v1", Scope::Platform, 0);
            draft.at = jiff::Timestamp::from_microsecond(micros).unwrap();
            sealer.event(draft)
        })
        .collect();
    sealer.seal(&store).await;
    same(&store.event_list(Scope::Platform, &filter(0, None, 9)).await.unwrap(), &written);
}
