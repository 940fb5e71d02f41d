//! The servers that share the database.

use muster_db::{Replica, Store};

use crate::made::{self, same};

on_both![a_server_is_listed_while_it_says_so, a_server_that_stops_takes_the_long_silent_with_it];

fn replica(seen: i64) -> Replica {
    Replica {
        id: made::id(),
        address: "127.0.0.1:7000".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: made::at(0),
        seen_at: made::at(seen),
    }
}

async fn a_server_is_listed_while_it_says_so(store: Store) {
    let (mut first, second) = (replica(10), replica(20));
    store.replica_seen(&second).await.unwrap();
    store.replica_seen(&first).await.unwrap();
    same(&store.replica_list(made::at(9)).await.unwrap(), &[&first, &second]);
    same(&store.replica_list(made::at(10)).await.unwrap(), &[&second]);
    first.seen_at = made::at(30);
    store.replica_seen(&first).await.unwrap();
    same(&store.replica_list(made::at(10)).await.unwrap(), &[&first, &second]);
    same(&store.replica_list(made::at(25)).await.unwrap(), &[&first]);
}

async fn a_server_that_stops_takes_the_long_silent_with_it(store: Store) {
    let (silent, edge, stopping, living) = (replica(10), replica(20), replica(30), replica(30));
    for replica in [&silent, &edge, &stopping, &living] {
        store.replica_seen(replica).await.unwrap();
    }
    store.replica_gone(stopping.id, made::at(20)).await.unwrap();
    same(&store.replica_list(made::at(0)).await.unwrap(), &[&edge, &living]);
}
