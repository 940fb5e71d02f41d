//! A forced release of an allocation on an unreachable node ends in quarantine: its tenant does not wait, nothing is claimed.

use muster_ids::{AllocationId, Env, NodeId};
use muster_model::witness::WitnessKind;
use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Nodes, Scene, stop, until, with_agent};

async fn allocation(scene: &Scene) -> Value {
    scene.admin.get(&format!("{}/allocations/a", scene.base)).await.ok().body
}

/// The node does not answer any more, and is declared lost.
async fn lose(scene: &Scene, nodes: &Nodes) {
    nodes.fleet.partition(0, true);
    let mut tx = scene.kit.store().begin().await.unwrap();
    tx.node_lost(nodes.ids[0], Env::system().now()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Releases the allocation by force; returns its id.
async fn released_by_force(scene: &Scene) -> AllocationId {
    let path = format!("{}/allocations/a/release", scene.base);
    let ended = scene.ended(&scene.admin.post(&path, json!({"force": true})).await.ok()).await;
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("partial"), &json!("quarantined")), "{ended:#}");
    let message = ended["message"].as_str().unwrap();
    assert!(message.contains("node one is unreachable"), "{message}");
    let left = allocation(scene).await;
    assert_eq!(left["state"], "releasing", "{left:#}");
    assert_eq!(scene.data_of("allocation.quarantined").await.len(), 1);
    assert!(!scene.told().await.contains(&"allocation.released".to_owned()), "nothing is verified");
    // A second release meets the operation of the platform, and no capacity is free twice.
    let again = scene.admin.post(&path, json!({"force": true})).await.refused(409, "invalid_state");
    assert!(again.text.contains("already in progress"), "{}", again.text);
    let id: AllocationId = left["id"].as_str().unwrap().parse().unwrap();
    let held = scene.kit.store().claims_of(id).await.unwrap();
    assert_eq!(held.len(), 1, "its slot stays claimed");
    id
}

async fn witness_of(scene: &Scene, id: AllocationId) -> WitnessKind {
    let store = scene.kit.store();
    let released = store.allocation_lookup(id).await.unwrap().unwrap();
    store.witness_lookup(released.wiped_witness_id.unwrap()).await.unwrap().unwrap().kind
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_on_a_lost_node_ends_and_is_finished_when_the_node_is_back() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        scene.running("shell", "a", json!({})).await;
        lose(&scene, &nodes).await;
        let id = released_by_force(&scene).await;
        nodes.fleet.partition(0, false);
        until("it is released", async || {
            scene.admin.get(&format!("{}/allocations/{id}", scene.base)).await.ok().body["state"]
                == "released"
        })
        .await;
        assert_eq!(witness_of(&scene, id).await, WitnessKind::Witnessed);
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_on_a_lost_node_is_finished_on_an_operators_word_alone() {
    for database in Database::both() {
        let (scene, nodes) = with_agent(database).await;
        // A release that is not forced waits for the node, and can be forced.
        scene.running("shell", "a", json!({})).await;
        lose(&scene, &nodes).await;
        let waits = scene.act("allocations/a/release").await.ok();
        let id = released_by_force(&scene).await;
        assert_eq!(scene.ended(&waits).await["state"], "superseded");
        let word = json!({"statement": "the machine was destroyed"});
        let path = format!("{}/allocations/{id}/attest", scene.base);
        scene.admin.post(&path, word.clone()).await.refused(403, "permission_denied");
        assert_eq!(allocation(&scene).await["state"], "releasing");
        scene.kit.operator().post(&path, word).await.ok();
        until("it is released", async || {
            scene.admin.get(&format!("{}/allocations/{id}", scene.base)).await.ok().body["state"]
                == "released"
        })
        .await;
        assert_eq!(witness_of(&scene, id).await, WitnessKind::Attested);
        let node: NodeId = nodes.ids[0];
        let slots = scene.kit.store().slot_list(node).await.unwrap();
        assert!(
            slots.iter().any(|slot| slot.state == muster_model::node::SlotState::Quarantined),
            "{slots:#?}"
        );
        stop(scene, nodes).await;
    }
}
