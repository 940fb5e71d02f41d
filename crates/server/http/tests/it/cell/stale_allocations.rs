//! Stale copies: cells on a node that must not be there.

use muster_ids::{AllocationId, CellId, Env};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::hand::{approved, hello, poll};
use super::{Nodes, Scene, stop, until};

#[tokio::test(flavor = "multi_thread")]
async fn cells_that_must_not_be_there_are_named_and_the_node_gets_nothing_before_they_are_gone() {
    for database in Database::both() {
        let scene = Scene::new(database, 1).await;
        let mut agent = approved(&scene, 0).await;
        // Both are requested, and nothing is done yet.
        let body = json!({"name": "a", "cpus": 2});
        let started = scene.admin.post(&format!("{}/allocations", scene.base), body).await.ok();
        let allocation: AllocationId =
            started.body["operation"]["subject_id"].as_str().unwrap().parse().unwrap();
        until("a task waits", async || {
            scene.kit.store().allocation_lookup(allocation).await.unwrap().unwrap().incarnation == 1
        })
        .await;
        let living =
            crate::stream::cell(scene.kit.store(), scene.fixture.id("train"), agent.node, "living").await;
        let row = scene.kit.store().cell_lookup(living).await.unwrap().unwrap();

        let cell = |allocation: AllocationId, id: CellId, incarnation: i64| json!({"allocation_id": allocation, "cell_id": id, "incarnation": incarnation});
        let env = Env::system();
        let own = cell(row.allocation_id, living, 1);
        let older = cell(row.allocation_id, living, 0);
        let moved = cell(allocation, living, 1);
        let stranger = cell(allocation, env.id(), 1);
        // One in an allocation that must not exist either: it is removed with its allocation.
        let nowhere: AllocationId = env.id();
        let inside = cell(nowhere, env.id(), 1);
        let places = json!([{"allocation_id": nowhere, "incarnation": 1}, {"allocation_id": allocation, "incarnation": 1}]);
        let cells = json!([own, older, moved, stranger, stranger, inside]);
        let welcome = hello(&agent, json!({"sandboxes": places, "cells": cells})).await;
        let sorted = |mut all: Vec<Value>| {
            all.sort_by_key(ToString::to_string);
            all
        };
        let named = sorted(welcome["stale_cells"].as_array().unwrap().clone());
        assert_eq!(named, sorted(vec![older, moved, stranger]));
        assert_eq!(welcome["stale_allocations"], json!([{"allocation_id": nowhere, "incarnation": 1}]));
        agent.session = welcome["session"].as_i64().unwrap();
        let work = poll(&agent, 1, 0).await;
        assert_eq!((&work["tasks"], work.get("desired")), (&json!([]), None), "heard, but given nothing");

        // Stale cells alone are enough to withhold work from the node.
        let places = json!([{"allocation_id": allocation, "incarnation": 1}]);
        let welcome =
            hello(&agent, json!({"sandboxes": places, "cells": [own, moved_of(&own, &allocation)]})).await;
        assert_eq!(welcome["stale_cells"].as_array().unwrap().len(), 1);
        agent.session = welcome["session"].as_i64().unwrap();
        assert_eq!(poll(&agent, 1, 0).await["tasks"], json!([]));

        let welcome = hello(&agent, json!({"sandboxes": places, "cells": [own]})).await;
        assert_eq!(
            (&welcome["stale_allocations"], welcome["stale_cells"].as_array().map_or(0, Vec::len)),
            (&json!([]), 0)
        );
        agent.session = welcome["session"].as_i64().unwrap();
        assert_eq!(poll(&agent, 5, 0).await["tasks"][0]["act"]["kind"], "prepare");
        scene.kit.sealed().await;
        let events = scene.kit.operator().get("/v1/events?page_size=200").await.ok().body;
        let told = events["items"].as_array().unwrap().iter().any(|event| {
            event["type"] == "dev.muster.node.orphans_found.v1" && event["data"]["cells"].is_array()
        });
        assert!(told, "{events:#}");
        scene.kit.stop().await;
    }
}

fn moved_of(own: &Value, allocation: &AllocationId) -> Value {
    let mut moved = own.clone();
    moved["allocation_id"] = json!(allocation);
    moved
}

/// The real agent returns with a cell that was given up while its node was unreachable.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_destroys_a_cell_that_was_given_up_while_it_was_away() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let mut nodes = Nodes::start(&scene, &["one"]).await;
    scene.allocate("a", 0).await;
    let cell = scene.running("shell", "a", json!({})).await;
    nodes.fleet.die(0).await;
    let sql: &'static str = "UPDATE cells SET incarnation = 2, version = version + 1";
    scene.kit.store().sabotage(sql).await.unwrap();
    nodes.fleet.revive(0).unwrap();
    nodes.ready().await;
    // The stale copy is gone, and the recorded cell can be created in its place.
    let again = scene.done(scene.act("cells/shell/restart").await).await;
    assert_eq!(again["state"], "succeeded");
    let now = scene.cell("shell").await;
    assert_eq!((&now["id"], &now["incarnation"]), (&cell["id"], &json!(3)));
    scene.kit.sealed().await;
    let events = scene.kit.operator().get("/v1/events?page_size=200").await.ok();
    assert!(events.text.contains("dev.muster.node.orphans_found.v1"));
    stop(scene, nodes).await;
}
