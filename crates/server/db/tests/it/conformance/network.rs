//! Networks, node addresses, and the desired revisions of nodes.

use muster_db::Store;
use muster_ids::{NetworkId, NodeId};
use muster_model::cell::subnet;

use super::cell::{Place, asked, cell, ensured, gone, in_project, place, request};
use crate::made::{self, at, fleet, is_gone, put, same};

on_both![
    a_network_is_made_once_and_found,
    networks_have_numbers_and_addresses_of_their_own,
    networks_that_are_made_at_once_are_all_made,
    a_network_shows_the_living_and_where_they_are,
    where_a_node_is_found_is_news_when_it_changes,
    an_address_is_of_one_node_and_waits_for_an_approval,
    a_change_in_a_network_is_for_the_nodes_in_it_and_the_one_it_is_about,
    a_node_that_moved_is_news_for_those_who_share_a_network_with_it,
    keys_are_news_for_the_nodes_of_the_tenants_cells_that_have_them,
    an_agent_follows_no_further_than_there_is_to_follow,
    nodes_behind_their_desired_revision_are_listed_while_reachable,
    networks_go_with_their_project_or_tenant,
];

async fn desired_revision(store: &Store, node: NodeId) -> i64 {
    store.node_revisions(node).await.unwrap().0
}

async fn raise(store: &Store, network: NetworkId, node: NodeId) {
    put(store, async |tx| tx.bump_desired(network, node).await).await.unwrap();
}

async fn apply(store: &Store, node: NodeId, revision: i64) {
    put(store, async |tx| tx.set_observed_revision(node, revision).await).await.unwrap();
}

/// Creates another project of the same tenant, with cells on `node`.
async fn sibling(store: &Store, place: &Place, node: NodeId) -> Place {
    let serve = made::project(&place.tenant, "serve");
    put(store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    in_project(store, place.tenant.clone(), serve, node).await
}

/// Creates a cell of `place` on another node.
async fn asked_on(
    store: &Store,
    place: &Place,
    node: NodeId,
    name: &str,
    host: i64,
) -> muster_model::cell::Cell {
    let cell = muster_model::cell::Cell { node_id: node, ..cell(place, name, host) };
    request(store, &cell).await.unwrap();
    cell
}

async fn a_network_is_made_once_and_found(store: Store) {
    let place = place(&store).await;
    let (first, project) = (&place.network, place.project.id);
    assert_eq!((first.project_id, first.tenant_id), (project, place.tenant.id));
    assert_eq!((first.name.as_str(), first.version), ("default", 2));
    let second = put(&store, async |tx| {
        tx.network_ensure(made::id(), place.tenant.id, project, "default", at(7)).await
    })
    .await
    .unwrap();
    assert_eq!((second.id, second.vni, second.version), (first.id, first.vni, 3));
    assert_eq!((second.created_at, second.updated_at), (at(0), at(7)));
    same(&store.network_lookup(first.id).await.unwrap().unwrap(), &second);
    same(&store.network_by_name(project, "default").await.unwrap().unwrap(), &second);
    same(&store.network_list(project).await.unwrap(), &[&second]);
    assert!(store.network_lookup(made::id()).await.unwrap().is_none());
    assert!(store.network_by_name(project, "other").await.unwrap().is_none());
    assert!(store.network_list(made::id()).await.unwrap().is_empty());
    let nowhere = made::project(&place.tenant, "never-made");
    is_gone(ensured(&store, &nowhere).await);
}

async fn networks_have_numbers_and_addresses_of_their_own(store: Store) {
    let place = place(&store).await;
    let other = sibling(&store, &place, place.node).await;
    let (one, two) = (&place.network, &other.network);
    assert!(one.vni > 0 && two.vni > one.vni);
    assert_eq!((one.subnet.as_str(), two.subnet.as_str()), (&*subnet(one.vni), &*subnet(two.vni)));
    assert_ne!(one.subnet, two.subnet);
}

/// The number is the highest plus one, which two transactions can compute alike.
async fn networks_that_are_made_at_once_are_all_made(store: Store) {
    let (tenant, _) = fleet::place(&store).await;
    let projects: Vec<_> = (0..8).map(|number| made::project(&tenant, &format!("p{number}"))).collect();
    for project in &projects {
        put(&store, async |tx| tx.project_insert(project).await).await.unwrap();
    }
    let all = futures::future::join_all(projects.iter().map(|project| ensured(&store, project))).await;
    let mut numbers: Vec<i64> = all.into_iter().map(|network| network.unwrap().vni).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), projects.len());
}

async fn a_network_shows_the_living_and_where_they_are(store: Store) {
    let place = place(&store).await;
    let (second, _) = fleet::machine(&store, "gpu-2", 0).await;
    put(&store, async |tx| tx.node_address(second, "192.0.2.2").await).await.unwrap();
    let a = asked(&store, &place, "a", 5).await;
    let b = asked_on(&store, &place, second, "b", 2).await;
    let shown = async || {
        let found = store.network_neighbours(place.network.id).await.unwrap();
        let found =
            found.into_iter().map(|one| (one.cell_id, one.name, one.host, one.node_id, one.node_address));
        found.collect::<Vec<_>>()
    };
    let (there, here) = (
        (b.id, "b".to_owned(), 2, second, Some("192.0.2.2".to_owned())),
        (a.id, "a".to_owned(), 5, place.node, None),
    );
    assert_eq!(shown().await, [there, here.clone()]);
    same(&store.network_on_node(second).await.unwrap()[0].id, &place.network.id);
    gone(&store, &b).await;
    assert_eq!(shown().await, [here]);
    assert!(store.network_on_node(second).await.unwrap().is_empty());
    assert_eq!(store.network_on_node(place.node).await.unwrap().len(), 1);
}

async fn where_a_node_is_found_is_news_when_it_changes(store: Store) {
    let (node, _) = fleet::machine(&store, "gpu-1", 0).await;
    let say =
        async |address: &str| put(&store, async |tx| tx.node_address(node, address).await).await.unwrap();
    assert_eq!([say("192.0.2.1").await, say("192.0.2.1").await, say("192.0.2.9").await], [true, false, true]);
    fleet::retired(&store, node).await;
    assert!(!say("192.0.2.1").await, "a node that is not ours is found nowhere");
}

async fn an_address_is_of_one_node_and_waits_for_an_approval(store: Store) {
    let (first, _) = fleet::machine(&store, "gpu-1", 0).await;
    let (second, _) = fleet::machine(&store, "gpu-2", 0).await;
    let seen = async |id| store.node_lookup(id).await.unwrap().unwrap();
    let version = seen(first).await.version;
    let report = async |address: &str, peer: Option<&str>| {
        put(&store, async |tx| tx.node_report_address(first, address, peer).await).await.unwrap();
    };
    report("192.0.2.1", None).await;
    report("192.0.2.1", Some("192.0.2.3")).await;
    let node = seen(first).await;
    assert_eq!((node.address, node.reported_address.as_deref()), (None, Some("192.0.2.1")));
    assert_eq!((node.peer_address.as_deref(), node.version), (Some("192.0.2.3"), version + 1));
    let adopt = async |id, address: &str| {
        put(&store, async |tx| tx.node_adopt_address(id, address).await).await.unwrap()
    };
    assert!(adopt(first, "192.0.2.1").await, "it was approved without one");
    assert!(!adopt(first, "192.0.2.2").await, "it has one");
    assert!(!adopt(second, "192.0.2.1").await, "it is another node's");
    made::is_conflict(put(&store, async |tx| tx.node_address(second, "192.0.2.1").await).await);
    let found = put(&store, async |tx| tx.node_with_address("192.0.2.1").await).await.unwrap();
    assert_eq!(found, Some(first));
    fleet::retired(&store, first).await;
    assert!(adopt(second, "192.0.2.1").await, "a retired node has none any more");
}

async fn a_change_in_a_network_is_for_the_nodes_in_it_and_the_one_it_is_about(store: Store) {
    let place = place(&store).await;
    let [second, third, fourth] = ["gpu-2", "gpu-3", "gpu-4"];
    let (second, third, fourth) = (
        fleet::machine(&store, second, 0).await.0,
        fleet::machine(&store, third, 0).await.0,
        fleet::machine(&store, fourth, 0).await.0,
    );
    asked(&store, &place, "a", 2).await;
    asked_on(&store, &place, second, "b", 3).await;
    let over = asked_on(&store, &place, third, "c", 4).await;
    gone(&store, &over).await;
    let other = sibling(&store, &place, fourth).await;
    asked(&store, &other, "d", 2).await;
    let numbers = async || {
        let mut all = Vec::new();
        for node in [place.node, second, third, fourth] {
            all.push(desired_revision(&store, node).await);
        }
        all
    };
    assert_eq!(numbers().await, [0, 0, 0, 0]);
    raise(&store, place.network.id, place.node).await;
    assert_eq!(numbers().await, [1, 1, 0, 0]);
    // A node that has just lost its last cell of the network gets a new revision too.
    raise(&store, place.network.id, third).await;
    assert_eq!(numbers().await, [2, 2, 1, 0]);
    let standing = store.node_standing(second, at(0)).await.unwrap().unwrap();
    assert_eq!((standing.desired_revision, standing.observed_revision), (2, 0));
}

async fn a_node_that_moved_is_news_for_those_who_share_a_network_with_it(store: Store) {
    let place = place(&store).await;
    let (second, _) = fleet::machine(&store, "gpu-2", 0).await;
    let (third, _) = fleet::machine(&store, "gpu-3", 0).await;
    asked(&store, &place, "a", 2).await;
    let b = asked_on(&store, &place, second, "b", 3).await;
    let other = sibling(&store, &place, third).await;
    asked(&store, &other, "c", 2).await;
    let moved = async |node| put(&store, async |tx| tx.bump_desired_node(node).await).await.unwrap();
    moved(second).await;
    let numbers = async || {
        [
            desired_revision(&store, place.node).await,
            desired_revision(&store, second).await,
            desired_revision(&store, third).await,
        ]
    };
    assert_eq!(numbers().await, [1, 1, 0]);
    gone(&store, &b).await;
    moved(second).await;
    assert_eq!(numbers().await, [1, 1, 0], "it shares nothing with anybody");
}

async fn keys_are_news_for_the_nodes_of_the_tenants_cells_that_have_them(store: Store) {
    let place = place(&store).await;
    let (second, _) = fleet::machine(&store, "gpu-2", 0).await;
    let mut with_keys = cell(&place, "a", 2);
    with_keys.people = true;
    request(&store, &with_keys).await.unwrap();
    asked_on(&store, &place, second, "b", 3).await;
    let raise = async |tenant| put(&store, async |tx| tx.bump_desired_people(tenant).await).await.unwrap();
    raise(made::id()).await;
    raise(place.tenant.id).await;
    assert_eq!([desired_revision(&store, place.node).await, desired_revision(&store, second).await], [1, 0]);
    gone(&store, &with_keys).await;
    raise(place.tenant.id).await;
    assert_eq!(desired_revision(&store, place.node).await, 1);
}

async fn an_agent_follows_no_further_than_there_is_to_follow(store: Store) {
    let place = place(&store).await;
    assert_eq!(store.node_revisions(place.node).await.unwrap(), (0, 0));
    raise(&store, place.network.id, place.node).await;
    raise(&store, place.network.id, place.node).await;
    for (said, applied) in [(1, 1), (3, 1), (2, 2), (0, 0)] {
        apply(&store, place.node, said).await;
        assert_eq!(store.node_revisions(place.node).await.unwrap(), (2, applied), "after {said}");
    }
}

async fn nodes_behind_their_desired_revision_are_listed_while_reachable(store: Store) {
    let place = place(&store).await;
    let (second, _) = fleet::machine(&store, "gpu-2", 0).await;
    asked(&store, &place, "a", 2).await;
    asked_on(&store, &place, second, "b", 3).await;
    let behind = async || store.nodes_behind(place.network.id).await.unwrap();
    assert!(behind().await.is_empty());
    raise(&store, place.network.id, place.node).await;
    assert_eq!(behind().await, ["gpu-1", "gpu-2"]);
    apply(&store, place.node, 1).await;
    assert_eq!(behind().await, ["gpu-2"]);
    store.sabotage("UPDATE nodes SET unreachable_since = created_at WHERE name = 'gpu-2'").await.unwrap();
    assert!(behind().await.is_empty(), "nobody waits for a node that is not heard");
}

async fn networks_go_with_their_project_or_tenant(store: Store) {
    let place = place(&store).await;
    let other = sibling(&store, &place, place.node).await;
    let (tenant, project) = (place.tenant.id, place.project.id);
    assert_eq!(put(&store, async |tx| tx.network_delete_of_project(project).await).await.unwrap(), 1);
    assert!(store.network_lookup(place.network.id).await.unwrap().is_none());
    assert!(store.network_lookup(other.network.id).await.unwrap().is_some());
    assert_eq!(put(&store, async |tx| tx.network_delete_of_tenant(tenant).await).await.unwrap(), 1);
    assert_eq!(put(&store, async |tx| tx.network_delete_of_tenant(tenant).await).await.unwrap(), 0);
}
