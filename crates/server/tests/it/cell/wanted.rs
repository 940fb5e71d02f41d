//! What a node should have beside its places, as its agent gets it.

use std::time::{Duration, Instant};

use muster_node_api::cell::{CellPeople, Wanted};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::hand::{ADDRESS, Hand, approved, poll};
use super::{KEY, OTHER_KEY, Scene, until};

fn last(hand: &Hand) -> Wanted {
    hand.held.lock().unwrap().wanted.last().cloned().unwrap_or_default()
}

fn keys(hand: &Hand) -> Vec<String> {
    let people = |cell: CellPeople| {
        cell.people.into_iter().flat_map(|person| person.keys).collect::<Vec<_>>().join("\n")
    };
    last(hand).people.into_iter().map(people).collect()
}

/// Where the members of the node's networks are.
fn found_at(hand: &Hand) -> Vec<String> {
    last(hand)
        .networks
        .into_iter()
        .flat_map(|network| network.neighbours)
        .map(|one| one.node_address)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_sent_the_networks_and_keys_of_its_cells_and_of_no_others() {
    for database in Database::both() {
        let scene = Scene::new(database, 1).await;
        let hand = Hand::start(&scene, 0).await;
        scene.allocate("a", 0).await;
        let admin = scene.fixture.client(&scene.kit, "project_admin");
        let ssh_keys = format!("{}/ssh-keys", scene.base);
        let key = admin.post(&ssh_keys, json!({"name": "k", "public_key": KEY})).await.ok();
        // Of another project, and of somebody who may only look.
        let other = json!({"name": "k", "public_key": OTHER_KEY});
        let elsewhere = format!("/v1/projects/{}/ssh-keys", scene.fixture.id("serve"));
        scene.admin.post(&elsewhere, other.clone()).await.ok();
        let viewer = scene.fixture.client(&scene.kit, "viewer");
        viewer.post(&ssh_keys, other).await.refused(403, "permission_denied");

        let open = scene.running("open", "a", json!({"people": true})).await;
        let closed = scene.running("closed", "a", json!({})).await;
        until("both are known", async || {
            last(&hand).networks.first().is_some_and(|network| network.neighbours.len() == 2)
        })
        .await;
        let wanted = last(&hand);
        let network = scene.admin.get(&format!("{}/networks/default", scene.base)).await.ok().body;
        assert_eq!(wanted.networks.len(), 1);
        assert_eq!(json!(wanted.networks[0].network_id), network["id"]);
        assert_eq!(
            (json!(wanted.networks[0].subnet), wanted.networks[0].name.as_str()),
            (network["subnet"].clone(), "default")
        );
        let shown: Vec<Value> = wanted.networks[0]
            .neighbours
            .iter()
            .map(|one| json!([one.cell_id, one.name, one.address]))
            .collect();
        let member = |cell: &Value| json!([cell["id"], cell["name"], cell["address"]]);
        assert_eq!(shown, [member(&open), member(&closed)]);
        let people: Vec<Value> =
            wanted.people[0].people.iter().map(|one| json!([one.name, one.keys])).collect();
        assert_eq!((wanted.people.len(), json!(wanted.people[0].cell_id)), (1, open["id"].clone()));
        assert_eq!(json!(people), json!([["tenant_admin", []], ["project_admin", [KEY]]]));
        until("it is written that it followed", async || {
            let (wanted, applied) = scene.kit.store().wanted(hand.node).await.unwrap();
            applied == wanted && wanted == last(&hand).revision
        })
        .await;

        admin.delete(&format!("{ssh_keys}/{}", key.text_of("id"))).await.ok();
        until("the key is taken away", async || keys(&hand) == [""]).await;
        admin.post(&ssh_keys, json!({"name": "k", "public_key": KEY})).await.ok();
        until("another is given", async || keys(&hand) == [KEY]).await;
        let binding = format!("/v1/role-bindings/{}", scene.fixture.id("project_admin_binding"));
        scene.admin.delete(&binding).await.ok();
        until("its owner has left", async || keys(&hand) == [""]).await;

        scene.done(scene.act("allocations/a/release").await).await;
        until("nothing is left", async || last(&hand).networks.is_empty() && last(&hand).people.is_empty())
            .await;
        drop(hand);
        scene.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_reaches_a_node_that_waits_at_another_server_within_a_second() {
    let scene = Scene::new(Database::postgres(), 2).await;
    let hand = Hand::start(&scene, 1).await;
    scene.allocate("a", 0).await;
    scene.running("open", "a", json!({"people": true})).await;
    until("its keys are known", async || keys(&hand) == [""]).await;
    let body = json!({"name": "k", "public_key": KEY});
    scene
        .fixture
        .client(&scene.kit, "project_admin")
        .post(&format!("{}/ssh-keys", scene.base), body)
        .await
        .ok();
    let asked = Instant::now();
    until("the key is there", async || keys(&hand) == [KEY]).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    drop(hand);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_told_again_until_it_has_followed() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    scene.running("shell", "a", json!({})).await;
    let followed = async || {
        let (wanted, applied) = scene.kit.store().wanted(hand.node).await.unwrap();
        wanted == applied
    };
    let other = approved(&scene, 0).await;
    assert!(poll(&other, 0, 0).await.get("wanted").is_none(), "a node without cells has nothing to follow");
    until("it has followed", followed).await;
    hand.held.lock().unwrap().idle = true;
    let mut tx = scene.kit.store().begin().await.unwrap();
    tx.wanted_raise_node(hand.node).await.unwrap();
    tx.commit().await.unwrap();
    let count = || hand.held.lock().unwrap().wanted.len();
    let before = count();
    until("it is told again until it follows", async || count() > before + 2).await;
    let (wanted, applied) = scene.kit.store().wanted(hand.node).await.unwrap();
    assert!(applied < wanted, "{applied} of {wanted}");
    hand.held.lock().unwrap().idle = false;
    until("it has followed again", followed).await;
    drop(hand);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_node_is_found_is_told_to_those_who_share_a_network_with_it() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    scene.running("shell", "a", json!({})).await;
    until("it is known", async || found_at(&hand) == [ADDRESS]).await;
    let mut tx = scene.kit.store().begin().await.unwrap();
    assert!(tx.node_address(hand.node, "192.0.2.2").await.unwrap());
    tx.wanted_raise_node(hand.node).await.unwrap();
    tx.commit().await.unwrap();
    until("it is told", async || found_at(&hand) == ["192.0.2.2"]).await;
    let agent = approved(&scene, 0).await;
    let body = json!({"agent_version": "0.1.0", "inventory": super::hand::machine("x"), "places": [],
                      "address": "not-an-address"});
    agent.send("hello", &body).await.refused(400, "invalid_request");
    drop(hand);
    scene.kit.stop().await;
}
