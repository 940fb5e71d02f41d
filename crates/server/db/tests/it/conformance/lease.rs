//! Leases: one holder at a time, and the previous one is fenced.

use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Lease, Result, Store};
use muster_ids::Env;

use crate::made::{self, put};

on_both![
    a_lease_has_one_holder,
    an_ended_lease_is_free_at_once_and_its_generation_rises,
    a_lapsed_lease_is_taken_over_and_its_holder_fenced,
    extending_keeps_it,
    a_fenced_transaction_does_nothing,
    only_its_holder_extends_or_ends_it,
];

const LONG: SignedDuration = SignedDuration::from_secs(60);
/// Long enough to be observed as held on a busy machine, short enough to wait for its end.
const SHORT: SignedDuration = SignedDuration::from_millis(400);

/// PostgreSQL uses its own clock and SQLite the caller's: with the real time, both behave alike.
async fn acquire(store: &Store, name: &str, holder: &str, length: SignedDuration) -> Option<Lease> {
    store.lease_acquire(name, holder, length, Env::system().now()).await.unwrap()
}

async fn extend(store: &Store, lease: &Lease) -> Result<()> {
    put(store, async |tx| tx.lease_extend(lease, Env::system().now()).await).await
}

async fn lapse() {
    tokio::time::sleep(Duration::from_millis(450)).await;
}

async fn a_lease_has_one_holder(store: Store) {
    let lease = acquire(&store, "sealer", "a", LONG).await.unwrap();
    let expected = Lease { name: "sealer".to_owned(), holder: "a".to_owned(), generation: 1, length: LONG };
    assert_eq!(lease, expected);
    assert_eq!(acquire(&store, "sealer", "b", LONG).await, None);
    assert_eq!(acquire(&store, "sealer", "a", LONG).await, None, "not even by its holder");
    assert_eq!(acquire(&store, "sweeper", "b", LONG).await.unwrap().generation, 1);
}

async fn an_ended_lease_is_free_at_once_and_its_generation_rises(store: Store) {
    for generation in 1..=3 {
        let lease = acquire(&store, "sealer", "a", LONG).await.unwrap();
        assert_eq!(lease.generation, generation);
        store.lease_end(&lease).await.unwrap();
    }
}

async fn a_lapsed_lease_is_taken_over_and_its_holder_fenced(store: Store) {
    let old = acquire(&store, "sealer", "a", SHORT).await.unwrap();
    assert_eq!(acquire(&store, "sealer", "b", LONG).await, None);
    lapse().await;
    let new = acquire(&store, "sealer", "b", LONG).await.unwrap();
    assert_eq!((new.holder.as_str(), new.generation), ("b", old.generation + 1));
    made::is_fenced(extend(&store, &old).await);
    extend(&store, &new).await.unwrap();
    // The same holder after a restart is fenced too, by the generation.
    store.lease_end(&new).await.unwrap();
    let again = acquire(&store, "sealer", "b", LONG).await.unwrap();
    made::is_fenced(extend(&store, &new).await);
    extend(&store, &again).await.unwrap();
}

async fn extending_keeps_it(store: Store) {
    let lease = acquire(&store, "sealer", "a", SHORT).await.unwrap();
    let longer = Lease { length: LONG, ..lease.clone() };
    extend(&store, &longer).await.unwrap();
    lapse().await;
    assert_eq!(acquire(&store, "sealer", "b", LONG).await, None);
    // A shorter extension counts from now, not from the old end.
    extend(&store, &lease).await.unwrap();
    lapse().await;
    assert_eq!(acquire(&store, "sealer", "b", LONG).await.unwrap().generation, 2);
}

async fn a_fenced_transaction_does_nothing(store: Store) {
    let old = acquire(&store, "sealer", "a", LONG).await.unwrap();
    store.lease_end(&old).await.unwrap();
    acquire(&store, "sealer", "b", LONG).await.unwrap();
    let tenant = made::tenant("acme");
    let fenced = put(&store, async |tx| {
        tx.tenant_insert(&tenant).await?;
        tx.lease_extend(&old, Env::system().now()).await
    });
    made::is_fenced(fenced.await);
    assert!(store.tenant_lookup(tenant.id).await.unwrap().is_none());
}

async fn only_its_holder_extends_or_ends_it(store: Store) {
    let old = acquire(&store, "sealer", "a", LONG).await.unwrap();
    store.lease_end(&old).await.unwrap();
    let new = acquire(&store, "sealer", "b", LONG).await.unwrap();
    let thief = Lease { holder: "c".to_owned(), ..new.clone() };
    made::is_fenced(extend(&store, &thief).await);
    // Late or foreign releases have no effect, even from the same holder with an earlier generation.
    let reborn = Lease { generation: old.generation, ..new.clone() };
    store.lease_end(&reborn).await.unwrap();
    let elsewhere = acquire(&store, "sweeper", "d", LONG).await.unwrap();
    store.lease_end(&Lease { holder: "b".to_owned(), generation: 2, ..elsewhere }).await.unwrap();
    store.lease_end(&old).await.unwrap();
    store.lease_end(&thief).await.unwrap();
    assert_eq!(acquire(&store, "sealer", "c", LONG).await, None);
    extend(&store, &new).await.unwrap();
    made::is_fenced(extend(&store, &Lease { name: "none".to_owned(), ..new.clone() }).await);
    store.lease_end(&Lease { name: "none".to_owned(), ..new }).await.unwrap();
    assert_eq!(acquire(&store, "sealer", "c", LONG).await, None);
}
