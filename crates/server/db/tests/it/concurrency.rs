//! Concurrent connections on PostgreSQL: the guarantees that depend on its locks.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Result, Store, StoreError};
use muster_ids::Env;
use muster_model::{Role, Scope, Tenant};
use muster_testkit::Database;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::made::{self, put};

pub(crate) const RACERS: usize = 16;

/// Opens two replicas on one database.
pub(crate) async fn replicas(database: &Database) -> [Store; 2] {
    [database.open().await, database.open().await]
}

/// Runs `work` as sixteen tasks that start together, half of them on each replica.
pub(crate) async fn race<T, F>(stores: &[Store; 2], work: impl Fn(usize, Store) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(RACERS));
    let mut tasks = JoinSet::new();
    for n in 0..RACERS {
        let (start, racer) = (start.clone(), work(n, stores[n % 2].clone()));
        tasks.spawn(async move {
            start.wait().await;
            racer.await
        });
    }
    timeout(Duration::from_secs(60), tasks.join_all()).await.expect("nothing may hang")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_gets_the_lease_in_every_round() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    for round in 1..=20 {
        let answers = race(&stores, |n, store| async move {
            let length = SignedDuration::from_secs(60);
            store.lease_acquire("sealer", &format!("r{n}"), length, Env::system().now()).await.unwrap()
        })
        .await;
        let winners: Vec<_> = answers.into_iter().flatten().collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        assert_eq!(winners[0].generation, round);
        stores[0].lease_end(&winners[0]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_uses_the_key() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    for round in 1..=20 {
        let answers = race(&stores, move |n, store| async move {
            let mut tx = store.begin().await.unwrap();
            tx.tenant_insert(&made::tenant(&format!("t{round}-{n}"))).await.unwrap();
            let record = made::command_record("usr_1", Some(&format!("k{round}")), Scope::Platform);
            let first = tx.record_command(&record).await.unwrap();
            if first {
                tx.commit().await.unwrap()
            } else {
                tx.rollback().await
            }
            first
        })
        .await;
        assert_eq!(answers.into_iter().filter(|first| *first).count(), 1, "round {round}");
        assert_eq!(stores[0].outbox_count().await.unwrap(), round);
        let things = stores[0].tenant_list(made::FIRST, None, &made::selector("")).await.unwrap();
        assert_eq!(things.len() as i64, round, "the effect happened once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_waits_for_the_first_and_takes_over_when_that_fails() {
    let database = Database::postgres();
    let store = database.open().await;
    for (key, commits) in [("kept", true), ("given-up", false)] {
        let mut first = store.begin().await.unwrap();
        assert!(
            first.record_command(&made::command_record("usr_1", Some(key), Scope::Platform)).await.unwrap()
        );
        let repeat = tokio::spawn({
            let store = store.clone();
            let record = made::command_record("usr_1", Some(key), Scope::Platform);
            async move { put(&store, async |tx| tx.record_command(&record).await).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!repeat.is_finished(), "it must not answer before it is known how the first ends");
        if commits {
            first.commit().await.unwrap();
        } else {
            first.rollback().await;
        }
        let taken = timeout(Duration::from_secs(10), repeat).await.expect("it is let go").unwrap();
        assert_eq!(taken, !commits);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_updates_and_the_others_are_stale() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let tenant = made::tenant("acme");
    put(&stores[0], async |tx| tx.tenant_insert(&tenant).await).await.unwrap();
    for version in 2..=6 {
        let answers = race(&stores, |n, store| {
            let changed = Tenant { display_name: format!("by {n}"), version, ..tenant.clone() };
            async move {
                let mut tx = store.begin().await?;
                tx.tenant_update(&changed).await?;
                tx.commit().await
            }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
        for answer in answers.into_iter().filter(Result::is_err) {
            made::is_stale(answer);
        }
        assert_eq!(stores[1].tenant_lookup(tenant.id).await.unwrap().unwrap().version, version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_inserts_and_the_others_conflict() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let answers = race(&stores, |_, store| async move {
        let mut tx = store.begin().await?;
        tx.sealing_key_insert(&made::sealing_key("ten_a", 1, "root-1"), made::at(0)).await?;
        tx.commit().await
    })
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(
        answers.iter().filter(|answer| matches!(answer, Err(StoreError::Conflict(_)))).count() == RACERS - 1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_taken_by_one_sealer_only() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let mut left: Vec<_> = (0..100).map(|_| made::uuid()).collect();
    put(&stores[0], async |tx| {
        for id in &left {
            tx.outbox_insert(*id, "platform", "{}", "[]").await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let taken = race(&stores, |_, store| async move {
        let mut tx = store.begin().await.unwrap();
        let rows = tx.outbox_take(30).await.unwrap();
        tx.commit().await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    })
    .await
    .concat();
    for id in &taken {
        let at = left.iter().position(|known| known == id).unwrap_or_else(|| panic!("{id} was taken twice"));
        left.swap_remove(at);
    }
    assert!(taken.len() >= 30);
    assert_eq!(stores[0].outbox_count().await.unwrap() as usize, left.len(), "none is lost");
}

/// Two operators that remove each other: the second removal waits, and then finds only one operator left.
#[tokio::test(flavor = "multi_thread")]
async fn two_removals_cannot_both_see_two_operators() {
    let database = Database::postgres();
    let store = database.open().await;
    let users = ["a@example.com", "b@example.com"].map(|email| made::user(None, email));
    let bindings = users.each_ref().map(|user| made::binding(user, Role::PlatformOperator, Scope::Platform));
    put(&store, async |tx| {
        for (user, binding) in users.iter().zip(&bindings) {
            tx.user_insert(user).await?;
            tx.role_binding_insert(binding).await?;
        }
        Ok(())
    })
    .await
    .unwrap();

    let mut first = store.begin().await.unwrap();
    assert_eq!(first.operators_locked().await.unwrap(), [users[0].id, users[1].id]);
    let second = tokio::spawn({
        let store = store.clone();
        async move {
            let mut tx = store.begin().await.unwrap();
            let seen = tx.operators_locked().await.unwrap();
            tx.rollback().await;
            seen
        }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!second.is_finished(), "the second must wait for the first");
    first.role_binding_delete(bindings[0].id).await.unwrap();
    first.commit().await.unwrap();
    let seen = timeout(Duration::from_secs(10), second).await.expect("it is let go").unwrap();
    assert_eq!(seen, [users[1].id]);
}

/// The same as a race, with disabling instead of removal: one operator always remains.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_operator_cannot_be_disabled_by_two_at_once() {
    let database = Database::postgres();
    let stores = replicas(&database).await;
    let users: Vec<_> = (0..RACERS).map(|n| made::user(None, &format!("u{n}@example.com"))).collect();
    put(&stores[0], async |tx| {
        for user in &users {
            tx.user_insert(user).await?;
            tx.role_binding_insert(&made::binding(user, Role::PlatformOperator, Scope::Platform)).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let disabled = race(&stores, |n, store| {
        let gone = muster_model::User { disabled: true, version: 2, ..users[n].clone() };
        async move {
            let mut tx = store.begin().await.unwrap();
            if tx.operators_locked().await.unwrap().len() < 2 {
                tx.rollback().await;
                return false;
            }
            tx.user_update(&gone).await.unwrap();
            tx.commit().await.unwrap();
            true
        }
    })
    .await;
    assert_eq!(disabled.into_iter().filter(|gone| *gone).count(), RACERS - 1);
    assert_eq!(put(&stores[0], async |tx| tx.operators_locked().await).await.unwrap().len(), 1);
}
