//! Retention: deleted rows, and the pruning positions that remain.

use muster_db::{AuditFilter, EventFilter, Store};
use muster_model::Scope;
use muster_model::audit::Head;
use muster_model::token::{Subject, Token};

use crate::made::{self, FIRST, put, same};
use crate::sealer::Sealer;

on_both![
    old_answers_are_forgotten,
    ended_tokens_are_forgotten,
    old_deliveries_are_forgotten,
    old_events_go_and_every_stream_knows_how_far,
    old_entries_go_and_the_chain_keeps_the_hash,
];

async fn old_answers_are_forgotten(store: Store) {
    for (key, at) in [("old", 0), ("edge", 10), ("young", 20)] {
        let record = muster_db::CommandRecord {
            at: made::at(at),
            ..made::command_record("usr_1", Some(key), Scope::Platform)
        };
        assert!(put(&store, async |tx| tx.record_command(&record).await).await.unwrap());
    }
    assert_eq!(put(&store, async |tx| tx.sweep_idempotency(made::at(10)).await).await.unwrap(), 1);
    let kept = async |key: &str| {
        store.replay_lookup("usr_1", "POST /v1/tenants", key, made::at(-1)).await.unwrap().is_some()
    };
    assert_eq!((kept("old").await, kept("edge").await, kept("young").await), (false, true, true));
    assert_eq!(store.outbox_count().await.unwrap(), 3, "what is to be sealed is not swept");
}

async fn ended_tokens_are_forgotten(store: Store) {
    let ada = made::user(None, "ada@example.com");
    let token = |expires: i64| Token { expires_at: made::at(expires), ..made::token(Subject::User(ada.id)) };
    let (expired, edge, living) = (token(9), token(10), token(900));
    let (revoked, late) = (token(900), token(900));
    put(&store, async |tx| {
        tx.user_insert(&ada).await?;
        for token in [&expired, &edge, &living, &revoked, &late] {
            tx.token_insert(token, made::hash(token)).await?;
        }
        tx.token_revoke(revoked.id, made::at(5)).await?;
        tx.token_revoke(late.id, made::at(10)).await
    })
    .await
    .unwrap();
    assert_eq!(put(&store, async |tx| tx.sweep_tokens(made::at(10)).await).await.unwrap(), 2);
    let late = Token { revoked_at: Some(made::at(10)), version: 2, ..late };
    same(&store.token_list(FIRST, Subject::User(ada.id)).await.unwrap(), &[&edge, &living, &late]);
}

async fn old_deliveries_are_forgotten(store: Store) {
    let hook = made::webhook("hook", Scope::Platform);
    let deliveries = [5, 10, 15].map(|sequence| made::delivery(sequence, 1));
    put(&store, async |tx| {
        tx.webhook_insert(&hook).await?;
        for delivery in &deliveries {
            tx.delivery_insert(hook.id, delivery).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(put(&store, async |tx| tx.sweep_deliveries(made::at(10)).await).await.unwrap(), 1);
    same(&store.delivery_list(hook.id, FIRST).await.unwrap(), &deliveries[1..]);
}

async fn old_events_go_and_every_stream_knows_how_far(store: Store) {
    let (acme, quiet) = (made::id(), made::id());
    let (train, serve) = (Scope::Project(acme, made::id()), Scope::Project(acme, made::id()));
    let scopes = [Scope::Platform, Scope::Tenant(acme), train, serve, train, Scope::Tenant(quiet), train];
    let mut sealer = Sealer::default();
    for (n, scope) in scopes.into_iter().enumerate() {
        sealer.event(made::draft("dev.muster.thing.v1", scope, 10 * n as i64));
    }
    sealer.seal(&store).await;
    let sweep =
        async |before: i64| put(&store, async |tx| tx.sweep_events(made::at(before)).await).await.unwrap();
    assert_eq!(sweep(0).await, 0);
    assert_eq!(store.event_stream_head(Scope::Platform).await.unwrap(), (7, 0));

    // Up to and including the fifth, because the sixth happened at 50 itself: platform 1, acme 2 and 5 (as 1 to 4), train 3
    // and 5 (as 1, 2), serve 4 (as 1).
    assert_eq!(sweep(50).await, 5);
    let heads = [
        (Scope::Platform, (7, 5)),
        (Scope::Tenant(acme), (5, 4)),
        (train, (3, 2)),
        (serve, (1, 1)),
        (Scope::Tenant(quiet), (1, 0)),
    ];
    for (scope, head) in heads {
        assert_eq!(store.event_stream_head(scope).await.unwrap(), head, "{scope:?}");
        let left = store.event_list(scope, &EventFilter { limit: 9, ..Default::default() }).await.unwrap();
        assert_eq!(left.len() as i64, head.0 - head.1, "{scope:?}");
        assert!(left.iter().all(|event| event.sequence_in(scope) > Some(head.1)), "{scope:?}");
    }
    assert_eq!(sweep(50).await, 0, "a second sweep finds nothing");
    assert_eq!(store.event_stream_head(train).await.unwrap(), (3, 2));
    assert_eq!(sweep(1000).await, 2);
    assert_eq!(store.event_stream_head(train).await.unwrap(), (3, 3));

    // The numbers continue.
    let next = sealer.event(made::draft("dev.muster.thing.v1", train, 2000));
    sealer.seal(&store).await;
    assert_eq!((next.platform_sequence, next.project_sequence), (8, Some(4)));
    assert_eq!(store.event_stream_head(train).await.unwrap(), (4, 3));
}

async fn old_entries_go_and_the_chain_keeps_the_hash(store: Store) {
    let tenant = Scope::Tenant(made::id());
    let mut sealer = Sealer::default();
    let entries: Vec<_> =
        (0..4).map(|n| sealer.entry(Scope::Platform, "usr_1", "tenant.create", 10 * n)).collect();
    let theirs: Vec<_> = [0, 5, 19, 100].map(|at| sealer.entry(tenant, "usr_2", "tenant.update", at)).into();
    sealer.seal(&store).await;
    let sweep =
        async |before: i64| put(&store, async |tx| tx.sweep_audit(made::at(before)).await).await.unwrap();
    assert_eq!(sweep(0).await, 0);
    assert_eq!(sweep(20).await, 5);
    let pruned = Head {
        chain: "platform".to_owned(),
        sequence: 4,
        hash: entries[3].hash.clone(),
        pruned_sequence: 2,
        pruned_hash: entries[1].hash.clone(),
    };
    same(&store.audit_head("platform").await.unwrap(), &pruned);
    let all = AuditFilter { limit: 9, ..Default::default() };
    let left = store.audit_list("platform", &all).await.unwrap();
    same(&left, &entries[2..]);
    assert_eq!(left[0].previous_hash, pruned.pruned_hash, "the chain can be verified from the mark on");
    let head = store.audit_head(&tenant.chain()).await.unwrap();
    assert_eq!(
        (head.pruned_sequence, &head.pruned_hash),
        (3, &theirs[2].hash),
        "each chain has its own mark"
    );
    same(&store.audit_list(&tenant.chain(), &all).await.unwrap(), &theirs[3..]);

    assert_eq!(sweep(20).await, 0);
    assert_eq!(sweep(1000).await, 3);
    let head = store.audit_head(&tenant.chain()).await.unwrap();
    assert_eq!((head.sequence, head.pruned_sequence), (4, 4));
    assert_eq!((&head.hash, &head.pruned_hash), (&theirs[3].hash, &theirs[3].hash));

    // Further sealing keeps the pruning positions.
    let next = sealer.entry(Scope::Platform, "usr_1", "tenant.delete", 2000);
    sealer.seal(&store).await;
    let head = store.audit_head("platform").await.unwrap();
    assert_eq!((head.sequence, head.pruned_sequence), (5, 4));
    assert_eq!((&head.hash, &head.pruned_hash), (&next.hash, &next.previous_hash));
}
