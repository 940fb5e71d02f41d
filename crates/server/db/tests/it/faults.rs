//! Fault injection at the single point that all writes pass.

use muster_db::{Fault, Store, StoreError};
use muster_model::{Scope, Tenant};

use crate::made::{self, FIRST, put};

on_both![
    any_statement_that_fails_leaves_nothing,
    statements_are_counted_across_transactions,
    a_statement_is_struck_by_name_and_others_pass,
    a_commit_that_failed_left_nothing,
    commit_with_a_lost_acknowledgement_is_applied,
    a_skipped_statement_is_a_planted_bug,
    the_second_row_of_a_command_record_can_be_skipped_alone,
    reads_and_disarmed_faults_are_left_alone,
];

fn three() -> [Tenant; 3] {
    ["a", "b", "c"].map(made::tenant)
}

async fn insert(store: &Store, tenants: &[Tenant]) -> muster_db::Result<()> {
    put(store, async |tx| {
        for tenant in tenants {
            tx.tenant_insert(tenant).await?;
        }
        Ok(())
    })
    .await
}

async fn slugs(store: &Store) -> Vec<String> {
    let tenants = store.tenant_list(FIRST, None, &made::selector("")).await.unwrap();
    tenants.into_iter().map(|tenant| tenant.slug).collect()
}

async fn any_statement_that_fails_leaves_nothing(store: Store) {
    for (round, n) in (1..=3).enumerate() {
        store.faults().arm(Fault::FailStatement(n));
        let failed = insert(&store, &three()).await;
        assert!(
            matches!(&failed, Err(StoreError::Unavailable(told)) if told.contains("TENANT_INSERT")),
            "{failed:?}"
        );
        assert_eq!(store.faults().struck(), round as u64 + 1);
        assert!(slugs(&store).await.is_empty(), "after statement {n}");
    }
    // It triggers once; and a transaction of three statements has no fourth.
    store.faults().arm(Fault::FailStatement(4));
    insert(&store, &three()).await.unwrap();
    assert_eq!(store.faults().struck(), 3);
    assert_eq!(slugs(&store).await, ["a", "b", "c"]);
}

async fn statements_are_counted_across_transactions(store: Store) {
    store.faults().arm(Fault::FailStatement(3));
    insert(&store, &[made::tenant("first")]).await.unwrap();
    insert(&store, &[made::tenant("second")]).await.unwrap();
    made::is_unavailable(insert(&store, &[made::tenant("third")]).await);
    insert(&store, &[made::tenant("fourth")]).await.unwrap();
    assert_eq!(slugs(&store).await, ["first", "second", "fourth"]);
}

async fn a_statement_is_struck_by_name_and_others_pass(store: Store) {
    store.faults().arm(Fault::FailBefore("TENANT_INSERT"));
    let user = made::user(None, "ada@example.com");
    put(&store, async |tx| tx.user_insert(&user).await).await.unwrap();
    assert_eq!(store.faults().struck(), 0);
    made::is_unavailable(insert(&store, &three()).await);
    assert_eq!(store.faults().struck(), 1);
    insert(&store, &three()).await.expect("it strikes once");
}

async fn a_commit_that_failed_left_nothing(store: Store) {
    store.faults().arm(Fault::FailCommit);
    made::is_unavailable(insert(&store, &three()).await);
    assert_eq!(store.faults().struck(), 1);
    assert!(slugs(&store).await.is_empty());
    insert(&store, &three()).await.unwrap();
    assert_eq!(slugs(&store).await, ["a", "b", "c"]);
}

async fn commit_with_a_lost_acknowledgement_is_applied(store: Store) {
    store.faults().arm(Fault::UnheardCommit);
    let unheard = insert(&store, &three()).await;
    assert!(matches!(unheard, Err(StoreError::Unheard)), "{unheard:?}");
    assert_eq!(store.faults().struck(), 1);
    assert_eq!(slugs(&store).await, ["a", "b", "c"]);
    insert(&store, &[made::tenant("d")]).await.unwrap();
    assert_eq!(store.faults().struck(), 1, "it strikes once");
}

async fn a_skipped_statement_is_a_planted_bug(store: Store) {
    store.faults().arm(Fault::Skip("TENANT_INSERT"));
    insert(&store, &three()).await.expect("a bug does not announce itself");
    assert_eq!(store.faults().struck(), 3);
    assert!(slugs(&store).await.is_empty());
    let user = made::user(None, "ada@example.com");
    put(&store, async |tx| tx.user_insert(&user).await).await.unwrap();
    assert!(store.user_lookup(user.id).await.unwrap().is_some(), "others are left alone");
    store.faults().clear();
    insert(&store, &three()).await.unwrap();
    assert_eq!(slugs(&store).await, ["a", "b", "c"]);
}

/// PostgreSQL writes both rows of the command record with one statement; the injected bug must be the same there.
async fn the_second_row_of_a_command_record_can_be_skipped_alone(store: Store) {
    store.faults().arm(Fault::Skip("OUTBOX_APPEND"));
    let record = made::command_record("usr_1", Some("k1"), Scope::Platform);
    assert!(put(&store, async |tx| tx.record_command(&record).await).await.unwrap());
    assert_eq!(store.faults().struck(), 1);
    assert!(store.replay_lookup("usr_1", &record.route, "k1", made::at(-1)).await.unwrap().is_some());
    assert!(!store.outbox_has_rows().await.unwrap());
    assert!(!put(&store, async |tx| tx.record_command(&record).await).await.unwrap());
}

async fn reads_and_disarmed_faults_are_left_alone(store: Store) {
    for fault in [Fault::FailStatement(1), Fault::FailCommit, Fault::UnheardCommit] {
        store.faults().arm(fault);
        assert!(slugs(&store).await.is_empty());
        store.ping().await.unwrap();
    }
    store.faults().clear();
    insert(&store, &three()).await.unwrap();
    assert_eq!(store.faults().struck(), 0);
}
