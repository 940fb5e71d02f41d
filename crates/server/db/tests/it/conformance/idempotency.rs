//! The command record: a key is used once, and its response can be replayed for a while.

use muster_db::{CommandRecord, Store};
use muster_model::Scope;

use crate::made::{self, put};

on_both![
    a_first_use_is_stored_and_replayed,
    repeated_idempotency_key_is_detected_and_leaves_nothing,
    a_key_belongs_to_its_actor_and_route,
    writes_before_the_command_record_are_kept_or_lost_with_it,
    nothing_follows_the_command_record_unnoticed,
    an_effect_that_conflicts_leaves_the_key_free,
    without_a_key_every_command_counts,
    an_answer_is_replayed_while_it_is_young,
    an_old_key_is_forgotten_and_can_be_used_again,
    without_its_index_a_key_would_be_used_twice,
];

async fn enter(store: &Store, record: &CommandRecord) -> bool {
    put(store, async |tx| tx.record_command(record).await).await.unwrap()
}

async fn a_first_use_is_stored_and_replayed(store: Store) {
    let scope = Scope::Project(made::id(), made::id());
    let record = CommandRecord {
        body: "{\"name\":\"ü\\n\"}".to_owned(),
        ..made::command_record("usr_1", Some("k1"), scope)
    };
    assert!(enter(&store, &record).await);
    let replay = store.replay_lookup("usr_1", &record.route, "k1", made::at(-1)).await.unwrap().unwrap();
    assert_eq!(replay.request_hash, record.request_hash);
    assert_eq!((replay.status, &replay.body), (201, &record.body));
    assert_eq!((replay.tenant_id, replay.project_id), (scope.tenant(), scope.project()));
    let left = put(&store, async |tx| tx.outbox_take(9).await).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, record.outbox_id);
    assert_eq!(left[0].chain, scope.chain());
    assert_eq!((&left[0].entry, &left[0].events), (&record.entry, &record.events));
}

async fn repeated_idempotency_key_is_detected_and_leaves_nothing(store: Store) {
    assert!(enter(&store, &made::command_record("usr_1", Some("k1"), Scope::Platform)).await);
    let again = CommandRecord { status: 500, ..made::command_record("usr_1", Some("k1"), Scope::Platform) };
    // Committed on purpose: even without the caller's rollback, nothing of the command record stays.
    assert!(!enter(&store, &again).await);
    assert_eq!(store.outbox_count().await.unwrap(), 1);
    let replay = store.replay_lookup("usr_1", &again.route, "k1", made::at(-1)).await.unwrap().unwrap();
    assert_eq!(replay.status, 201);
    // The same within one transaction.
    let twice = put(&store, async |tx| {
        let first = tx.record_command(&made::command_record("usr_1", Some("k2"), Scope::Platform)).await?;
        Ok((first, tx.record_command(&made::command_record("usr_1", Some("k2"), Scope::Platform)).await?))
    });
    assert_eq!(twice.await.unwrap(), (true, false));
    assert_eq!(store.outbox_count().await.unwrap(), 2);
}

async fn a_key_belongs_to_its_actor_and_route(store: Store) {
    let record = made::command_record("usr_1", Some("k1"), Scope::Platform);
    assert!(enter(&store, &record).await);
    assert!(enter(&store, &made::command_record("usr_2", Some("k1"), Scope::Platform)).await);
    let elsewhere = CommandRecord {
        route: "POST /v1/users".to_owned(),
        ..made::command_record("usr_1", Some("k1"), Scope::Platform)
    };
    assert!(enter(&store, &elsewhere).await);
    assert!(enter(&store, &made::command_record("usr_1", Some("K1"), Scope::Platform)).await);
    assert!(store.replay_lookup("usr_3", &record.route, "k1", made::at(-1)).await.unwrap().is_none());
    assert!(store.replay_lookup("usr_1", &record.route, "k2", made::at(-1)).await.unwrap().is_none());
    assert!(store.replay_lookup("usr_2", &elsewhere.route, "k1", made::at(-1)).await.unwrap().is_none());
}

/// Effects and the command record are committed or rolled back together, however few round trips the database needs.
async fn writes_before_the_command_record_are_kept_or_lost_with_it(store: Store) {
    for effects in 1..=3 {
        for (key, commits) in [(format!("kept-{effects}"), true), (format!("lost-{effects}"), false)] {
            let tenants: Vec<_> = (0..effects).map(|at| made::tenant(&format!("t{at}-{key}"))).collect();
            let before = store.outbox_count().await.unwrap();
            let mut tx = store.begin().await.unwrap();
            for tenant in &tenants {
                tx.tenant_insert(tenant).await.unwrap();
            }
            if commits {
                assert!(
                    tx.record_command(&made::command_record("usr_1", Some(&key), Scope::Platform))
                        .await
                        .unwrap()
                );
                tx.commit().await.unwrap();
            } else {
                tx.rollback().await;
            }
            for tenant in &tenants {
                let there = store.tenant_lookup(tenant.id).await.unwrap().is_some();
                assert_eq!(there, commits, "{} of {key}", tenant.slug);
            }
            let replay = store.replay_lookup("usr_1", "POST /v1/tenants", &key, made::at(-1)).await.unwrap();
            assert_eq!(replay.is_some(), commits, "{key}");
            assert_eq!(store.outbox_count().await.unwrap() - before, i64::from(commits));
        }
    }
}

/// The command record comes last: on PostgreSQL it may already be the commit, so later statements are refused, never lost.
async fn nothing_follows_the_command_record_unnoticed(store: Store) {
    let (effect, late) = (made::tenant("effect"), made::tenant("late"));
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&effect).await.unwrap();
    assert!(tx.record_command(&made::command_record("usr_1", Some("k1"), Scope::Platform)).await.unwrap());
    let taken = tx.tenant_insert(&late).await.is_ok();
    tx.commit().await.unwrap();
    assert!(store.tenant_lookup(effect.id).await.unwrap().is_some());
    assert_eq!(store.tenant_lookup(late.id).await.unwrap().is_some(), taken);
}

async fn an_effect_that_conflicts_leaves_the_key_free(store: Store) {
    put(&store, async |tx| tx.tenant_insert(&made::tenant("acme")).await).await.unwrap();
    let twice = put(&store, async |tx| {
        tx.tenant_insert(&made::tenant("acme")).await?;
        tx.record_command(&made::command_record("usr_1", Some("k1"), Scope::Platform)).await
    });
    made::is_conflict(twice.await);
    assert!(!store.outbox_has_rows().await.unwrap());
    let effect = made::tenant("globex");
    let first = put(&store, async |tx| {
        tx.tenant_insert(&effect).await?;
        tx.record_command(&made::command_record("usr_1", Some("k1"), Scope::Platform)).await
    });
    assert!(first.await.unwrap());
    // A used key prevents the effect, even if nothing else conflicts.
    let other = made::tenant("initech");
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&other).await.unwrap();
    assert!(!tx.record_command(&made::command_record("usr_1", Some("k1"), Scope::Platform)).await.unwrap());
    tx.rollback().await;
    assert!(store.tenant_lookup(effect.id).await.unwrap().is_some());
    assert!(store.tenant_lookup(other.id).await.unwrap().is_none());
}

async fn without_a_key_every_command_counts(store: Store) {
    assert!(!store.outbox_has_rows().await.unwrap());
    for _ in 0..2 {
        assert!(enter(&store, &made::command_record("usr_1", None, Scope::Platform)).await);
    }
    assert!(store.outbox_has_rows().await.unwrap());
    assert_eq!(store.outbox_count().await.unwrap(), 2);
}

async fn an_answer_is_replayed_while_it_is_young(store: Store) {
    let record = made::command_record("usr_1", Some("k1"), Scope::Platform);
    assert!(enter(&store, &record).await);
    let found = async |since: i64| {
        store.replay_lookup("usr_1", &record.route, "k1", made::at(since)).await.unwrap().is_some()
    };
    assert!(found(-1).await);
    assert!(!found(0).await, "an answer from exactly then is too old");
    assert!(!found(1).await);
}

async fn an_old_key_is_forgotten_and_can_be_used_again(store: Store) {
    let record = made::command_record("usr_1", Some("k1"), Scope::Platform);
    assert!(enter(&store, &record).await);
    let neighbours = [
        made::command_record("usr_2", Some("k1"), Scope::Platform),
        made::command_record("usr_1", Some("k2"), Scope::Platform),
        CommandRecord {
            route: "POST /v1/users".to_owned(),
            ..made::command_record("usr_1", Some("k1"), Scope::Platform)
        },
    ];
    for neighbour in &neighbours {
        assert!(enter(&store, neighbour).await);
    }
    let forget = async |until: i64| {
        put(&store, async |tx| tx.idempotency_forget("usr_1", &record.route, "k1", made::at(until)).await)
            .await
            .unwrap();
    };
    forget(-1).await;
    assert!(!enter(&store, &made::command_record("usr_1", Some("k1"), Scope::Platform)).await);
    forget(0).await;
    assert!(enter(&store, &made::command_record("usr_1", Some("k1"), Scope::Platform)).await);
    for neighbour in &neighbours {
        assert!(!enter(&store, neighbour).await, "only the named key is forgotten");
    }
}

/// The unique index is the only guard: without it, the guarantee is lost.
async fn without_its_index_a_key_would_be_used_twice(store: Store) {
    assert!(enter(&store, &made::command_record("usr_1", Some("k1"), Scope::Platform)).await);
    store.sabotage("DROP INDEX idempotency_once").await.unwrap();
    assert!(enter(&store, &made::command_record("usr_1", Some("k1"), Scope::Platform)).await);
    assert_eq!(store.outbox_count().await.unwrap(), 2);
}
