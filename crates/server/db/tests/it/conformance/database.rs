//! The database as a whole: location, ping, wake-ups, backups.

use std::path::PathBuf;
use std::time::Duration;

use muster_db::{Location, Store, newest_migration};
use muster_testkit::Database;
use tokio::time::timeout;

use crate::made::{self, put, same};

on_both![databases:
    a_store_knows_what_and_where_it_is,
    wake_reaches_listeners_of_other_replicas,
    a_copy_opens_as_a_database_where_there_is_one,
];

#[test]
fn a_location_is_a_url_or_a_path() {
    for url in ["postgres://muster@db/muster", "postgresql:///muster"] {
        assert_eq!(Location::parse(url), Location::Postgres(url.to_owned()));
    }
    for (text, path) in [
        ("muster.db", "muster.db"),
        ("/var/lib/muster/muster.db", "/var/lib/muster/muster.db"),
        ("sqlite:data/muster.db", "data/muster.db"),
        ("postgres.db", "postgres.db"),
    ] {
        assert_eq!(Location::parse(text), Location::Sqlite(PathBuf::from(path)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there_is_unavailable() {
    let nowhere = Database::sqlite().folder().join("no/such/folder/muster.db");
    assert!(Store::open(&Location::Sqlite(nowhere), 1).await.is_err());
    // Nothing listens on port 1.
    let nobody = Location::Postgres("postgres://nobody@127.0.0.1:1/none".to_owned());
    made::is_unavailable(Store::open(&nobody, 1).await.map(drop));
}

async fn a_store_knows_what_and_where_it_is(database: &Database) {
    let store = database.open().await;
    let kind = match &database.location {
        Location::Sqlite(_) => "sqlite",
        Location::Postgres(_) => "postgres",
    };
    assert_eq!(store.kind(), kind);
    assert_eq!(store.location(), &database.location);
    store.ping().await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), newest_migration());
    store.close().await;
    made::is_unavailable(store.ping().await);
}

async fn wake_reaches_listeners_of_other_replicas(database: &Database) {
    let (store, other) = (database.open().await, database.open().await);
    let Some(mut listener) = store.listener().await.unwrap() else {
        // One process owns the file: there is no replica to wake, and waking none is not an error.
        assert_eq!(store.kind(), "sqlite");
        return store.wake().await.unwrap();
    };
    assert!(timeout(Duration::from_millis(200), listener.wait()).await.is_err(), "nobody has called yet");
    other.wake().await.unwrap();
    timeout(Duration::from_secs(10), listener.wait()).await.expect("it is woken").unwrap();
}

async fn a_copy_opens_as_a_database_where_there_is_one(database: &Database) {
    let store = database.open().await;
    let (before, after) = (made::tenant("before"), made::tenant("after"));
    put(&store, async |tx| tx.tenant_insert(&before).await).await.unwrap();
    let target = database.folder().join("copy of it's.db");
    if store.kind() == "postgres" {
        let refused = store.backup_to(&target).await;
        assert!(refused.as_ref().is_err_and(|error| error.to_string().contains("pg_dump")), "{refused:?}");
        assert!(!target.exists());
        return;
    }
    // Works during an open transaction; the copy contains only committed data.
    let mut tx = store.begin().await.unwrap();
    tx.tenant_insert(&after).await.unwrap();
    store.backup_to(&target).await.unwrap();
    tx.commit().await.unwrap();
    let copy = Store::open(&Location::Sqlite(target.clone()), 1).await.unwrap();
    same(&copy.tenant_lookup(before.id).await.unwrap(), &Some(&before));
    assert!(copy.tenant_lookup(after.id).await.unwrap().is_none());
    assert_eq!(copy.describe_schema().await.unwrap(), store.describe_schema().await.unwrap());
    // The copy is an independent database.
    put(&copy, async |tx| tx.tenant_insert(&made::tenant("only-there")).await).await.unwrap();
    assert!(store.tenant_by_slug("only-there").await.unwrap().is_none());
    // An existing file is never overwritten.
    assert!(store.backup_to(&target).await.is_err());
    same(&copy.tenant_lookup(before.id).await.unwrap(), &Some(&before));
}
