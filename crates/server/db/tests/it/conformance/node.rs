//! Nodes: joining, the facts that determine their state, sessions, certificates, heartbeats.

use jiff::Timestamp;
use muster_db::{NodeStanding, Page, Result, Store};
use muster_ids::{NodeId, TypedId as _};
use muster_model::node::{Capacity, Node, NodeState, SlotState};
use muster_model::witness::Transition;
use serde_json::json;

use crate::made::{self, FIRST, at, fleet, put, same};

on_both![
    a_machine_that_joins_waits_for_approval,
    a_name_is_one_nodes_until_that_is_retired,
    lists_are_by_page_labels_and_state,
    its_state_is_made_of_the_facts_and_the_gravest_counts,
    each_hello_is_a_session_and_other_hardware_is_a_version,
    an_inventory_is_taken_from_the_current_session_only,
    its_standing_is_what_an_agent_is_judged_by,
    heartbeats_are_written_for_many_and_the_last_one_counts,
    being_lost_and_being_back_are_news_once,
    certificate_is_renewed_with_any_currently_valid_key,
    rejoining_a_node_fences_its_previous_agent,
    a_session_is_the_current_one_or_fenced,
    labels_change_on_the_version_that_was_seen,
    a_node_that_is_emptied_is_not_opened,
    approval_is_of_what_was_seen_and_keeps_what_is_held,
    a_node_is_retired_with_evidence_and_empty,
    nodes_are_counted_by_state,
];

async fn joined(store: &Store, name: &str) -> NodeId {
    let joining = fleet::joining(name);
    put(store, async |tx| tx.node_join(&joining).await).await.unwrap();
    joining.id
}

async fn node(store: &Store, id: NodeId) -> Node {
    store.node_lookup(id).await.unwrap().unwrap()
}

async fn standing(store: &Store, id: NodeId) -> NodeStanding {
    store.node_standing(id, at(0)).await.unwrap().unwrap()
}

async fn hello(store: &Store, id: NodeId, digest: &str, clean: bool) -> Result<i64> {
    put(store, async |tx| tx.node_hello(id, "0.2.0", json!({"digest": digest}), digest, clean, at(4)).await)
        .await
}

async fn a_machine_that_joins_waits_for_approval(store: Store) {
    let mut joining = fleet::joining("gpu-1");
    joining.labels = made::labels([("rack", "7")]);
    put(&store, async |tx| tx.node_join(&joining).await).await.unwrap();
    let found = node(&store, joining.id).await;
    assert_eq!((found.id, found.name.as_str(), found.state), (joining.id, "gpu-1", NodeState::Enrolling));
    assert_eq!((&found.labels, &found.inventory), (&joining.labels, &joining.inventory));
    assert_eq!((found.inventory_digest.as_str(), found.agent_version.as_str()), ("digest of gpu-1", "0.1.0"));
    assert_eq!((found.certificate_until, found.created_at, found.updated_at), (at(86_400), at(0), at(0)));
    assert_eq!((found.total, found.free, found.holders), (Capacity::default(), Capacity::default(), 0));
    assert_eq!((found.session, found.version, found.seen_at), (0, 1, None));
    assert!(!found.cordoned && !found.draining && found.approved_inventory.is_none());
    same(&store.node_by_name("gpu-1").await.unwrap(), &Some(found.clone()));
    let seen = put(&store, async |tx| tx.node_of(joining.id).await).await.unwrap();
    same(&seen, &found);
    assert!(store.node_lookup(made::id()).await.unwrap().is_none());
    assert!(store.node_by_name("gpu-2").await.unwrap().is_none());
    made::is_gone(put(&store, async |tx| tx.node_of(made::id()).await).await);
}

async fn a_name_is_one_nodes_until_that_is_retired(store: Store) {
    let first = joined(&store, "gpu-1").await;
    let again = fleet::joining("gpu-1");
    made::is_conflict(put(&store, async |tx| tx.node_join(&again).await).await);
    fleet::retired(&store, first).await;
    assert!(store.node_by_name("gpu-1").await.unwrap().is_none());
    put(&store, async |tx| tx.node_join(&again).await).await.unwrap();
    assert_eq!(store.node_by_name("gpu-1").await.unwrap().unwrap().id, again.id);
    assert_eq!(node(&store, first).await.name, "gpu-1", "the old one is still known by its id");
}

async fn lists_are_by_page_labels_and_state(store: Store) {
    let mut all = ["a", "b", "c"].map(fleet::joining);
    all[0].labels = made::labels([("rack", "7"), ("stage", "test")]);
    all[1].labels = made::labels([("rack", "7")]);
    put(&store, async |tx| {
        for joining in &all {
            tx.node_join(joining).await?;
        }
        tx.node_approve(all[2].id, fleet::WHOLE, "digest of c", 1, at(1)).await
    })
    .await
    .unwrap();
    let list = async |page: Page, labels: &str, state: Option<NodeState>| {
        let nodes = store.node_list(page, &made::selector(labels), state).await.unwrap();
        nodes.into_iter().map(|node| node.name).collect::<String>()
    };
    assert_eq!(list(FIRST, "", None).await, "abc");
    assert_eq!(list(Page { size: 2, ..FIRST }, "", None).await, "ab");
    assert_eq!(list(made::page(all[0].id, 9), "", None).await, "bc");
    assert_eq!(list(FIRST, "rack=7", None).await, "ab");
    assert_eq!(list(FIRST, "rack=7,stage!=test", None).await, "b");
    assert_eq!(list(FIRST, "", Some(NodeState::Ready)).await, "c");
    assert_eq!(list(FIRST, "rack=7", Some(NodeState::Ready)).await, "");
}

async fn its_state_is_made_of_the_facts_and_the_gravest_counts(store: Store) {
    let id = joined(&store, "gpu-1").await;
    let state = async || node(&store, id).await.state;
    put(&store, async |tx| {
        tx.node_approve(id, fleet::WHOLE, "digest of gpu-1", 1, at(1)).await?;
        tx.node_recount(id).await
    })
    .await
    .unwrap();
    assert_eq!(state().await, NodeState::Ready);
    assert!(put(&store, async |tx| tx.node_set_cordoned(id, true, at(2)).await).await.unwrap());
    assert_eq!(state().await, NodeState::Cordoned);
    put(&store, async |tx| tx.node_set_draining(id, true, true, at(3)).await).await.unwrap();
    assert_eq!(state().await, NodeState::Draining);
    put(&store, async |tx| tx.node_lost(id, at(4)).await).await.unwrap();
    assert_eq!(state().await, NodeState::Unreachable);
    assert_eq!(node(&store, id).await.unreachable_since, Some(at(4)));
    put(&store, async |tx| tx.node_back(id, at(5)).await).await.unwrap();
    assert_eq!(state().await, NodeState::Draining);
    put(&store, async |tx| tx.node_set_draining(id, false, true, at(6)).await).await.unwrap();
    assert_eq!(state().await, NodeState::Cordoned);
    assert!(put(&store, async |tx| tx.node_set_cordoned(id, false, at(7)).await).await.unwrap());
    assert_eq!(state().await, NodeState::Ready);
    put(&store, async |tx| tx.node_lost(id, at(7)).await).await.unwrap();
    fleet::retired(&store, id).await;
    let found = node(&store, id).await;
    assert_eq!((found.state, found.retired_at, found.updated_at), (NodeState::Retired, Some(at(8)), at(8)));
    assert!(found.retired_witness_id.is_some());
}

async fn each_hello_is_a_session_and_other_hardware_is_a_version(store: Store) {
    let id = joined(&store, "gpu-1").await;
    assert_eq!(hello(&store, id, "digest of gpu-1", true).await.unwrap(), 1);
    let found = node(&store, id).await;
    assert_eq!((found.version, found.session, found.agent_version.as_str()), (1, 1, "0.2.0"));
    assert_eq!(hello(&store, id, "other", false).await.unwrap(), 2);
    let found = node(&store, id).await;
    assert_eq!((found.version, found.session, found.inventory_digest.as_str()), (2, 2, "other"));
    assert_eq!((found.inventory, found.updated_at), (json!({"digest": "other"}), at(4)));
    assert!(!standing(&store, id).await.clean);
    assert_eq!(hello(&store, id, "other", true).await.unwrap(), 3);
    assert!(standing(&store, id).await.clean);
    made::is_fenced(hello(&store, made::id(), "x", true).await);
    fleet::retired(&store, id).await;
    made::is_fenced(hello(&store, id, "x", true).await);
}

async fn an_inventory_is_taken_from_the_current_session_only(store: Store) {
    let id = joined(&store, "gpu-1").await;
    for _ in 0..2 {
        hello(&store, id, "digest of gpu-1", true).await.unwrap();
    }
    let say = async |session: i64, digest: &str| {
        put(&store, async |tx| tx.node_inventory(id, session, json!({}), digest, at(6)).await).await
    };
    say(2, "digest of gpu-1").await.unwrap();
    assert_eq!(node(&store, id).await.version, 1, "the same hardware is no news");
    say(2, "more").await.unwrap();
    let found = node(&store, id).await;
    assert_eq!((found.version, found.inventory_digest.as_str(), found.updated_at), (2, "more", at(6)));
    made::is_fenced(say(1, "older").await);
    made::is_fenced(say(3, "from the future").await);
    fleet::retired(&store, id).await;
    made::is_fenced(say(2, "late").await);
    assert_eq!(node(&store, id).await.inventory_digest, "more");
}

async fn its_standing_is_what_an_agent_is_judged_by(store: Store) {
    let (first, key) = (fleet::joining("gpu-1"), fleet::key());
    put(&store, async |tx| tx.node_join_with(&first, Some(key)).await).await.unwrap();
    let second = joined(&store, "gpu-2").await;
    let fresh = NodeStanding {
        session: 0,
        retired: false,
        unreachable: false,
        clean: false,
        waiting: false,
        key: Some(key),
        previous_key: None,
        desired_revision: 0,
        observed_revision: 0,
    };
    assert_eq!(standing(&store, first.id).await, fresh);
    assert_eq!(standing(&store, second).await, NodeStanding { key: None, ..fresh });
    assert!(store.node_standing(made::id(), at(0)).await.unwrap().is_none());

    hello(&store, first.id, "x", true).await.unwrap();
    let task = fleet::task(first.id, made::id(), "prepare");
    put(&store, async |tx| {
        tx.task_queue(&task).await?;
        tx.node_lost(second, at(2)).await
    })
    .await
    .unwrap();
    assert!(store.node_standing(first.id, at(299)).await.unwrap().unwrap().waiting);
    assert!(!store.node_standing(first.id, at(300)).await.unwrap().unwrap().waiting, "it has expired");
    let mut all = store.node_standings(&[first.id, made::id(), second]).await.unwrap();
    all.sort_by_key(|(id, _)| *id);
    let said = NodeStanding { session: 1, clean: true, ..fresh };
    assert_eq!(all, [(first.id, said), (second, NodeStanding { key: None, unreachable: true, ..fresh })]);
    assert!(store.node_standings(&[]).await.unwrap().is_empty());
    fleet::retired(&store, second).await;
    assert!(standing(&store, second).await.retired);
}

async fn heartbeats_are_written_for_many_and_the_last_one_counts(store: Store) {
    let nodes = [joined(&store, "a").await, joined(&store, "b").await, joined(&store, "c").await];
    let seen = async || {
        let heard = store.heartbeat_list().await.unwrap();
        heard.into_iter().map(|heard| (heard.name, heard.seen_at)).collect::<Vec<_>>()
    };
    store.heartbeat_write(&nodes[..2], &[], at(1)).await.unwrap();
    store.heartbeat_write(&nodes[1..2], &[], at(2)).await.unwrap();
    store.heartbeat_write(&[], &[], at(3)).await.unwrap();
    let expected = |name: &str, at: Option<Timestamp>| (name.to_owned(), at);
    assert_eq!(seen().await, [expected("a", Some(at(1))), expected("b", Some(at(2))), expected("c", None)]);
    assert_eq!(node(&store, nodes[1]).await.seen_at, Some(at(2)));
    let undone = put(&store, async |tx| {
        tx.heartbeat_note(&nodes, at(5)).await?;
        tx.node_of(made::id()).await
    });
    made::is_gone(undone.await);
    assert_eq!(node(&store, nodes[1]).await.seen_at, Some(at(2)), "it was part of what did not happen");
    put(&store, async |tx| tx.node_lost(nodes[0], at(9)).await).await.unwrap();
    assert_eq!(store.heartbeat_list().await.unwrap()[0].unreachable_since, Some(at(9)));
    fleet::retired(&store, nodes[0]).await;
    assert_eq!(seen().await.len(), 2, "nobody listens for a retired one");
    // A thousand at once, in one commit.
    let many: Vec<NodeId> = (0..1000).map(|_| made::id()).collect();
    store.heartbeat_write(&many, &[], at(4)).await.unwrap();
    assert_eq!(seen().await.len(), 2, "and nodes that were never here are none");
}

async fn being_lost_and_being_back_are_news_once(store: Store) {
    let id = joined(&store, "gpu-1").await;
    let lost = async || put(&store, async |tx| tx.node_lost(id, at(1)).await).await.unwrap();
    let back = async || put(&store, async |tx| tx.node_back(id, at(2)).await).await.unwrap();
    assert_eq!((back().await, lost().await, lost().await), (false, true, false));
    assert_eq!((back().await, back().await), (true, false));
    let found = node(&store, id).await;
    assert_eq!((found.unreachable_since, found.version), (None, 3));
    fleet::retired(&store, id).await;
    assert!(!lost().await, "a retired node cannot be lost");
}

async fn certificate_is_renewed_with_any_currently_valid_key(store: Store) {
    let (joining, [a, b, c]) = (fleet::joining("gpu-1"), [(); 3].map(|()| fleet::key()));
    put(&store, async |tx| tx.node_join_with(&joining, Some(a)).await).await.unwrap();
    let id = joining.id;
    let renew = async |asked_with, key, until| {
        put(&store, async |tx| tx.node_renewed(id, asked_with, key, until).await).await
    };
    let keys = async || {
        let standing = standing(&store, id).await;
        (standing.key, standing.previous_key)
    };
    // Renewing with the same key leaves no previous key.
    renew(a, a, at(1)).await.unwrap();
    assert_eq!((keys().await, node(&store, id).await.certificate_until), ((Some(a), None), at(1)));
    made::is_fenced(renew(b, b, at(2)).await);
    renew(a, b, at(3)).await.unwrap();
    assert_eq!(keys().await, (Some(b), Some(a)));
    // The response with `b` was lost, so `a` requests again; `b` is then void.
    renew(a, c, at(4)).await.unwrap();
    assert_eq!(keys().await, (Some(c), Some(a)));
    made::is_fenced(renew(b, b, at(5)).await);
    let settle = async |key| put(&store, async |tx| tx.node_settled(id, key).await).await.unwrap();
    settle(b).await;
    assert_eq!(keys().await, (Some(c), Some(a)), "only the newest one settles");
    settle(c).await;
    assert_eq!(keys().await, (Some(c), None));
    made::is_fenced(renew(a, a, at(6)).await);
    assert_eq!(node(&store, id).await.certificate_until, at(4));
    // A renewal with the previous key for the previous key discards the newer one.
    renew(c, b, at(7)).await.unwrap();
    renew(c, c, at(8)).await.unwrap();
    assert_eq!(keys().await, (Some(c), None));
    fleet::retired(&store, id).await;
    made::is_fenced(renew(c, c, at(9)).await);
    // A node without a certificate cannot renew one.
    let bare = joined(&store, "gpu-2").await;
    made::is_fenced(put(&store, async |tx| tx.node_renewed(bare, a, a, at(9)).await).await);
}

async fn rejoining_a_node_fences_its_previous_agent(store: Store) {
    let (joining, [a, b, c]) = (fleet::joining("gpu-1"), [(); 3].map(|()| fleet::key()));
    put(&store, async |tx| tx.node_join_with(&joining, Some(a)).await).await.unwrap();
    let id = joining.id;
    hello(&store, id, "x", true).await.unwrap();
    put(&store, async |tx| tx.node_renewed(id, a, b, at(1)).await).await.unwrap();
    let name = put(&store, async |tx| tx.node_rejoin(id, c, at(2)).await).await.unwrap();
    let now = standing(&store, id).await;
    assert_eq!((name.as_str(), now.key, now.previous_key), ("gpu-1", Some(c), None));
    assert_eq!((now.session, now.clean), (2, false), "nobody is given work before a hello");
    assert_eq!(node(&store, id).await.certificate_until, at(2));
    for old in [a, b] {
        made::is_fenced(put(&store, async |tx| tx.node_renewed(id, old, old, at(3)).await).await);
    }
    fleet::retired(&store, id).await;
    made::is_gone(put(&store, async |tx| tx.node_rejoin(id, a, at(4)).await).await);
    made::is_gone(put(&store, async |tx| tx.node_rejoin(made::id(), a, at(4)).await).await);
}

async fn a_session_is_the_current_one_or_fenced(store: Store) {
    let id = joined(&store, "gpu-1").await;
    let session = hello(&store, id, "x", true).await.unwrap();
    let ask = async |session| put(&store, async |tx| tx.node_in_session(id, session).await).await;
    ask(session).await.unwrap();
    made::is_fenced(ask(session - 1).await);
    hello(&store, id, "x", true).await.unwrap();
    made::is_fenced(ask(session).await);
    fleet::retired(&store, id).await;
    made::is_fenced(ask(session + 1).await);
}

async fn labels_change_on_the_version_that_was_seen(store: Store) {
    let id = joined(&store, "gpu-1").await;
    let seen = node(&store, id).await;
    let labels = made::labels([("rack", "8")]);
    let changed = Node { labels: labels.clone(), updated_at: at(3), version: 2, ..seen.clone() };
    let update = async |node: &Node| put(&store, async |tx| tx.node_update(node).await).await;
    update(&changed).await.unwrap();
    same(&node(&store, id).await, &changed);
    made::is_stale(update(&changed).await);
    made::is_stale(update(&Node { id: made::id(), ..changed.clone() }).await);
    fleet::retired(&store, id).await;
    made::is_stale(update(&Node { version: node(&store, id).await.version + 1, ..changed }).await);
}

async fn a_node_that_is_emptied_is_not_opened(store: Store) {
    let (id, other) = (joined(&store, "gpu-1").await, joined(&store, "gpu-2").await);
    let cordon = async |cordoned| {
        put(&store, async |tx| tx.node_set_cordoned(id, cordoned, at(2)).await).await.unwrap()
    };
    assert_eq!((cordon(false).await, cordon(true).await, cordon(true).await), (false, true, false));
    put(&store, async |tx| tx.node_set_draining(id, true, true, at(3)).await).await.unwrap();
    assert!(!cordon(false).await, "it is being emptied");
    put(&store, async |tx| tx.node_set_draining(id, false, true, at(4)).await).await.unwrap();
    assert!(cordon(false).await);
    assert!(!node(&store, other).await.cordoned, "its neighbour was not meant");
    fleet::retired(&store, id).await;
    assert!(!cordon(true).await);
    made::is_fenced(put(&store, async |tx| tx.node_set_draining(id, true, true, at(5)).await).await);
}

async fn approval_is_of_what_was_seen_and_keeps_what_is_held(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 2).await;
    let found = node(&store, id).await;
    assert_eq!((found.state, found.version, found.approved_at), (NodeState::Ready, 2, Some(at(2))));
    assert_eq!(found.approved_digest.as_deref(), Some("digest of gpu-1"));
    assert_eq!(found.approved_inventory.as_ref(), Some(&found.inventory));
    assert_eq!((found.total, found.free), (fleet::capacity(2, 64, 1000, 2000), found.total));

    let (_, project) = fleet::place(&store).await;
    let holder = fleet::requested(&store, &project, "a").await;
    fleet::held(&store, id, holder.id, &[slots[0].id]).await;
    let approve = async |total: Capacity, digest: &str, version: i64| {
        put(&store, async |tx| tx.node_approve(id, total, digest, version, at(7)).await).await
    };
    let smaller = fleet::capacity(0, 10, 100, 2000);
    made::is_stale(approve(smaller, "another digest", 2).await);
    made::is_stale(approve(smaller, "digest of gpu-1", 1).await);
    approve(smaller, "digest of gpu-1", 2).await.unwrap();
    let found = node(&store, id).await;
    assert_eq!((found.total.cpus, found.free.cpus), (10, 8), "what is held stays held");
    assert_eq!((found.free.memory_mb, found.free.disk_mb), (96, 1992));
    // Two CPUs are held: an inventory with one CPU cannot be approved.
    made::is_conflict(approve(fleet::capacity(0, 1, 100, 2000), "digest of gpu-1", 3).await);
    fleet::released(&store, id, holder.id, 1).await;
    fleet::retired(&store, id).await;
    made::is_stale(approve(smaller, "digest of gpu-1", 4).await);
}

async fn a_node_is_retired_with_evidence_and_empty(store: Store) {
    let (id, slots) = fleet::machine(&store, "gpu-1", 1).await;
    let (_, project) = fleet::place(&store).await;
    let holder = fleet::requested(&store, &project, "a").await;
    fleet::held(&store, id, holder.id, &[slots[0].id]).await;
    let own = fleet::witnessed(&store, id.uuid(), Transition::Retired).await;
    let anothers = fleet::witnessed(&store, made::uuid(), Transition::Retired).await;
    let retire = async |witness| put(&store, async |tx| tx.node_retire(id, witness, at(8)).await).await;
    made::is_conflict(retire(own.id).await);
    fleet::released(&store, id, holder.id, 1).await;
    made::is_gone(retire(made::id()).await);
    made::is_gone(retire(anothers.id).await);
    let something_else = fleet::witnessed(&store, id.uuid(), Transition::Wiped).await;
    made::is_gone(retire(something_else.id).await);
    assert_eq!(node(&store, id).await.retired_at, None);
    retire(own.id).await.unwrap();
    assert_eq!(node(&store, id).await.retired_witness_id, Some(own.id));
    assert_eq!(store.slot_list(id).await.unwrap()[0].state, SlotState::Retired);
    made::is_conflict(retire(own.id).await);
}

async fn nodes_are_counted_by_state(store: Store) {
    assert!(store.node_count().await.unwrap().is_empty());
    let (_, project) = fleet::place(&store).await;
    let (id, slots) = fleet::machine(&store, "a", 4).await;
    fleet::machine(&store, "b", 2).await;
    joined(&store, "c").await;
    let holder = fleet::requested(&store, &project, "a").await;
    fleet::held(&store, id, holder.id, &[slots[0].id]).await;
    let counts = store.node_count().await.unwrap();
    let counts: Vec<_> =
        counts.iter().map(|count| (count.state.as_str(), count.nodes, count.gpus, count.gpus_free)).collect();
    assert_eq!(counts, [("enrolling", 1, 0, 0), ("ready", 2, 6, 5)]);
}
