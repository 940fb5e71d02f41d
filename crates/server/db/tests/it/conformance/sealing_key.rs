//! Keys that seal secrets.

use muster_db::{SealingKey, Store};

use crate::made::{self, put, same};

on_both![
    a_key_is_found_by_version_and_the_newest_is_known,
    a_version_exists_once,
    keys_under_other_roots_are_listed_and_rewrapped,
    older_versions_go_when_the_newest_is_old_enough,
    an_owners_keys_are_destroyed_together,
];

async fn insert(store: &Store, keys: &[&SealingKey]) -> muster_db::Result<()> {
    put(store, async |tx| {
        for key in keys {
            tx.sealing_key_insert(key, made::at(key.key_version)).await?;
        }
        Ok(())
    })
    .await
}

async fn a_key_is_found_by_version_and_the_newest_is_known(store: Store) {
    // Ten after nine: versions sort as numbers, not as text.
    let (nine, ten) = (made::sealing_key("ten_a", 9, "root-1"), made::sealing_key("ten_a", 10, "root-2"));
    let platform = made::sealing_key("platform", 1, "root-1");
    insert(&store, &[&ten, &nine, &platform]).await.unwrap();
    same(&store.sealing_key_lookup("ten_a", 9).await.unwrap(), &Some(&nine));
    same(&store.sealing_key_newest("ten_a").await.unwrap(), &Some(&ten));
    same(&store.sealing_key_newest("platform").await.unwrap(), &Some(&platform));
    assert!(store.sealing_key_lookup("ten_a", 11).await.unwrap().is_none());
    assert!(store.sealing_key_newest("ten_b").await.unwrap().is_none());
    assert_eq!(store.sealing_keys_superseded().await.unwrap(), [("ten_a".to_owned(), 10)]);
    insert(&store, &[&made::sealing_key("platform", 2, "root-1")]).await.unwrap();
    let superseded = [("platform".to_owned(), 2), ("ten_a".to_owned(), 10)];
    assert_eq!(store.sealing_keys_superseded().await.unwrap(), superseded);
}

async fn a_version_exists_once(store: Store) {
    let key = made::sealing_key("ten_a", 1, "root-1");
    insert(&store, &[&key]).await.unwrap();
    made::is_conflict(insert(&store, &[&made::sealing_key("ten_a", 1, "root-2")]).await);
    same(&store.sealing_key_lookup("ten_a", 1).await.unwrap(), &Some(&key));
}

async fn keys_under_other_roots_are_listed_and_rewrapped(store: Store) {
    let first = made::sealing_key("ten_a", 1, "root-1");
    let second = made::sealing_key("ten_a", 2, "root-1");
    let other = made::sealing_key("ten_b", 1, "root-1");
    let done = made::sealing_key("ten_c", 1, "root-2");
    insert(&store, &[&other, &second, &first, &done]).await.unwrap();
    same(&store.sealing_keys_not_under("root-2", 9).await.unwrap(), &[&first, &second, &other]);
    same(&store.sealing_keys_not_under("root-2", 2).await.unwrap(), &[&first, &second]);
    assert_eq!(store.sealing_keys_under("root-1").await.unwrap(), 3);

    let fresh = SealingKey { root_key_id: "root-2".to_owned(), wrapped: vec![42], ..first.clone() };
    put(&store, async |tx| tx.sealing_key_rewrap(&fresh, "root-1").await).await.unwrap();
    same(&store.sealing_key_lookup("ten_a", 1).await.unwrap(), &Some(&fresh));
    same(&store.sealing_keys_not_under("root-2", 9).await.unwrap(), &[&second, &other]);
    assert_eq!(store.sealing_keys_under("root-1").await.unwrap(), 2);
    assert_eq!(store.sealing_keys_under("root-2").await.unwrap(), 2);

    // Another replica came first: its key stays.
    let late = SealingKey { wrapped: vec![43], ..fresh.clone() };
    made::is_stale(put(&store, async |tx| tx.sealing_key_rewrap(&late, "root-1").await).await);
    same(&store.sealing_key_lookup("ten_a", 1).await.unwrap(), &Some(&fresh));
}

async fn older_versions_go_when_the_newest_is_old_enough(store: Store) {
    let keys = [1, 2, 3].map(|version| made::sealing_key("ten_a", version, "root-1"));
    let other = made::sealing_key("ten_b", 4, "root-1");
    insert(&store, &keys.each_ref()).await.unwrap();
    insert(&store, &[&other]).await.unwrap();
    let delete = async |newest: i64, since: i64| {
        put(&store, async |tx| tx.sealing_key_delete_older("ten_a", newest, made::at(since)).await)
            .await
            .unwrap();
        store.sealing_keys_under("root-1").await.unwrap()
    };
    assert_eq!(delete(3, 3).await, 4, "the third was made at 3, which is not before 3");
    assert_eq!(delete(4, 99).await, 4, "only another owner has a fourth that could stand for the others");
    assert_eq!(delete(2, 99).await, 3, "only those before the named one go");
    assert_eq!(delete(3, 4).await, 2);
    same(&store.sealing_key_newest("ten_a").await.unwrap(), &Some(&keys[2]));
    same(&store.sealing_key_lookup("ten_b", 4).await.unwrap(), &Some(&other));
    assert!(store.sealing_keys_superseded().await.unwrap().is_empty());
}

async fn an_owners_keys_are_destroyed_together(store: Store) {
    let keys = [1, 2].map(|version| made::sealing_key("ten_a", version, "root-1"));
    insert(&store, &[&keys[0], &keys[1], &made::sealing_key("ten_b", 1, "root-1")]).await.unwrap();
    let delete = async || put(&store, async |tx| tx.sealing_key_delete_of("ten_a").await).await.unwrap();
    assert_eq!(delete().await, 2);
    assert_eq!(delete().await, 0);
    assert!(store.sealing_key_newest("ten_a").await.unwrap().is_none());
    assert_eq!(store.sealing_keys_under("root-1").await.unwrap(), 1);
}
