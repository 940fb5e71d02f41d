//! Transactions: atomic, and invisible until committed.

use std::time::{Duration, Instant};

use muster_db::Store;

use crate::made::{self, put};

on_both![
    only_committed_transactions_persist,
    transaction_is_invisible_before_its_commit,
    a_transaction_with_a_failed_statement_cannot_be_committed,
    a_failed_statement_takes_the_whole_transaction_with_it,
    the_meter_counts_how_long_a_transaction_was_held,
];

async fn only_committed_transactions_persist(store: Store) {
    let [kept, rolled, dropped] = ["kept", "rolled", "dropped"].map(made::tenant);
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&kept).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&rolled).await.unwrap();
    tx.rollback().await;
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&dropped).await.unwrap();
    drop(tx);
    // The next writer waits until the dropped one is rolled back.
    put(&store, async |tx| tx.tenant_insert(&made::tenant("next")).await).await.unwrap();
    assert!(store.tenant_lookup(kept.id).await.unwrap().is_some());
    assert!(store.tenant_lookup(rolled.id).await.unwrap().is_none());
    assert!(store.tenant_lookup(dropped.id).await.unwrap().is_none());
    put(&store, async |_| Ok(())).await.expect("an empty one is fine");
}

async fn transaction_is_invisible_before_its_commit(store: Store) {
    let tenant = made::tenant("acme");
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&tenant).await.unwrap();
    assert!(store.tenant_lookup(tenant.id).await.unwrap().is_none());
    tx.commit().await.unwrap();
    assert!(store.tenant_lookup(tenant.id).await.unwrap().is_some());
}

/// PostgreSQL answers COMMIT of a failed transaction with a rollback that looks like a success. A reported commit must be a
/// commit, on both databases.
async fn a_transaction_with_a_failed_statement_cannot_be_committed(store: Store) {
    let (first, again) = (made::tenant("acme"), made::tenant("acme"));
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&first).await.unwrap();
    made::is_conflict(tx.tenant_insert(&again).await);
    let committed = tx.commit().await.is_ok();
    let there = store.tenant_lookup(first.id).await.unwrap().is_some();
    assert_eq!(committed, there, "told: {committed}, there: {there}");
    assert!(!there, "both databases must give the same answer, and PostgreSQL cannot keep the first row");
}

async fn a_failed_statement_takes_the_whole_transaction_with_it(store: Store) {
    let (first, again) = (made::tenant("acme"), made::tenant("acme"));
    let failed = put(&store, async |tx| {
        tx.tenant_insert(&first).await?;
        tx.tenant_insert(&again).await
    });
    made::is_conflict(failed.await);
    assert!(store.tenant_by_slug("acme").await.unwrap().is_none());
}

async fn the_meter_counts_how_long_a_transaction_was_held(store: Store) {
    store.meter().start();
    let began = Instant::now();
    put(&store, async |tx| tx.tenant_insert(&made::tenant("quick")).await).await.unwrap();
    let (quick, took) = (store.meter().longest_held(), began.elapsed());
    assert!(quick <= took, "{quick:?} of {took:?}");
    let pause = quick + Duration::from_millis(60);
    put(&store, async |tx| {
        tx.tenant_insert(&made::tenant("slow")).await?;
        tokio::time::sleep(pause).await;
        Ok(())
    })
    .await
    .unwrap();
    let slow = store.meter().longest_held();
    assert!(slow >= pause, "{slow:?}");
    // One that blocks its thread, and is rolled back.
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&made::tenant("blocked")).await.unwrap();
    std::thread::sleep(slow * 2);
    tx.rollback().await;
    let blocked = store.meter().longest_held();
    assert!(blocked >= slow * 2, "{blocked:?}");
}
