//! Enrolments, and the certificate authority.

use muster_db::{Authority, Enrolment, Result, Store};
use muster_ids::NodeId;

use crate::made::{self, at, fleet, put, same};

on_both![
    a_right_to_join_is_found_by_its_tokens_hash_until_it_ends,
    a_right_to_join_is_used_once,
    a_right_for_a_node_is_for_that_node,
    expired_unused_enrolment_is_pruned_and_a_used_one_kept,
    an_authority_is_kept_once_and_sealed_anew,
];

/// An arbitrary value, different for each.
const HASH: [u8; 32] = [5; 32];

async fn issue(store: &Store, enrolment: &Enrolment, hash: [u8; 32], until: i64) -> Result<()> {
    put(store, async |tx| tx.enrolment_insert(enrolment, &hash, "usr_1", at(0), at(until)).await).await
}

async fn joined(store: &Store, name: &str) -> NodeId {
    let joining = fleet::joining(name);
    put(store, async |tx| tx.node_join(&joining).await).await.unwrap();
    joining.id
}

async fn found(store: &Store, hash: [u8; 32], seconds: i64) -> Option<Enrolment> {
    store.enrolment_by_hash(&hash, at(seconds)).await.unwrap()
}

async fn a_right_to_join_is_found_by_its_tokens_hash_until_it_ends(store: Store) {
    let right = Enrolment { labels: made::labels([("rack", "7")]), ..fleet::enrolment(Some("gpu-1")) };
    issue(&store, &right, HASH, 60).await.unwrap();
    same(&found(&store, HASH, 59).await, &Some(right.clone()));
    assert!(found(&store, HASH, 60).await.is_none());
    assert!(found(&store, [6; 32], 0).await.is_none());
    made::is_conflict(issue(&store, &fleet::enrolment(None), HASH, 60).await);
    issue(&store, &fleet::enrolment(None), [6; 32], 60).await.unwrap();
    let nowhere = Enrolment { node_id: Some(made::id()), ..fleet::enrolment(None) };
    made::is_gone(issue(&store, &nowhere, [7; 32], 60).await);
}

async fn a_right_to_join_is_used_once(store: Store) {
    let (right, other) = (fleet::enrolment(None), fleet::enrolment(None));
    issue(&store, &right, HASH, 60).await.unwrap();
    issue(&store, &other, [6; 32], 60).await.unwrap();
    let (node, key) = (joined(&store, "gpu-1").await, fleet::key());
    let with = async |node, key, seconds| {
        put(&store, async |tx| tx.enrolment_use(right.id, node, key, at(seconds)).await).await
    };
    made::is_fenced(with(node, key, 60).await);
    made::is_gone(with(made::id(), key, 5).await);
    with(node, key, 5).await.unwrap();
    let used = Enrolment { node_id: Some(node), used_with: Some(key), ..right.clone() };
    same(&found(&store, HASH, 59).await, &Some(used.clone()));
    assert!(found(&store, HASH, 60).await.is_none());
    for key in [key, fleet::key()] {
        made::is_fenced(with(node, key, 6).await);
    }
    let lock = async |id, seconds| put(&store, async |tx| tx.enrolment_lock(id, at(seconds)).await).await;
    made::is_fenced(lock(right.id, 6).await);
    made::is_fenced(lock(made::id(), 6).await);
    lock(other.id, 6).await.unwrap();
    made::is_fenced(lock(other.id, 60).await);
    same(&found(&store, HASH, 7).await, &Some(used));
    same(&found(&store, [6; 32], 7).await, &Some(other));
    // A failed join leaves the enrolment unused.
    issue(&store, &fleet::enrolment(None), [8; 32], 60).await.unwrap();
    let fresh = found(&store, [8; 32], 0).await.unwrap();
    let taken = fleet::joining("gpu-1");
    let failed = put(&store, async |tx| {
        tx.enrolment_use(fresh.id, node, key, at(5)).await?;
        tx.node_join(&taken).await
    });
    made::is_conflict(failed.await);
    assert!(found(&store, [8; 32], 6).await.unwrap().used_with.is_none());
}

async fn a_right_for_a_node_is_for_that_node(store: Store) {
    let (node, other) = (joined(&store, "gpu-1").await, joined(&store, "gpu-2").await);
    let right = Enrolment { node_id: Some(node), ..fleet::enrolment(Some("gpu-1")) };
    issue(&store, &right, HASH, 60).await.unwrap();
    same(&found(&store, HASH, 0).await, &Some(right.clone()));
    let with = async |node| {
        put(&store, async |tx| tx.enrolment_use(right.id, node, fleet::key(), at(5)).await).await
    };
    made::is_fenced(with(other).await);
    with(node).await.unwrap();
    made::is_fenced(with(node).await);
}

async fn expired_unused_enrolment_is_pruned_and_a_used_one_kept(store: Store) {
    let (used, ended, open) = (fleet::enrolment(None), fleet::enrolment(None), fleet::enrolment(None));
    issue(&store, &used, [1; 32], 60).await.unwrap();
    issue(&store, &ended, [2; 32], 60).await.unwrap();
    issue(&store, &open, [3; 32], 90).await.unwrap();
    let node = joined(&store, "gpu-1").await;
    put(&store, async |tx| tx.enrolment_use(used.id, node, fleet::key(), at(5)).await).await.unwrap();
    let prune = async |until| put(&store, async |tx| tx.enrolment_prune(at(until)).await).await.unwrap();
    assert_eq!((prune(60).await, prune(61).await, prune(61).await), (0, 1, 0));
    assert!(found(&store, [1; 32], 0).await.is_some());
    assert!(found(&store, [2; 32], 0).await.is_none());
    assert!(found(&store, [3; 32], 0).await.is_some());
}

async fn an_authority_is_kept_once_and_sealed_anew(store: Store) {
    let authority = |certificate: &str| Authority {
        certificate: certificate.to_owned(),
        sealed_key: vec![0, 1, 255],
        key_version: 1,
        created_at: at(0),
    };
    let put_it = async |name: &str, authority: Authority| {
        put(&store, async |tx| tx.authority_put(name, &authority).await).await.unwrap()
    };
    assert!(store.authority_lookup("nodes").await.unwrap().is_none());
    assert!(put_it("nodes", authority("first")).await);
    assert!(!put_it("nodes", authority("second")).await, "whoever comes second uses the first one's");
    assert!(put_it("others", authority("third")).await);
    same(&store.authority_lookup("nodes").await.unwrap(), &Some(authority("first")));
    same(&store.authority_lookup("others").await.unwrap(), &Some(authority("third")));
}
