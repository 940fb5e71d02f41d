//! Cells after a reboot of their node: the agent reports their end immediately, and those with a restart policy are
//! recreated, each as a new incarnation, until the budget is spent.

use muster_ids::{CellId, TypedId as _};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Nodes, Scene, stop, until, with_agent};

fn service() -> Value {
    json!([{"name": "web", "command": ["/bin/sleep", "1000"]}])
}

async fn count(scene: &Scene, word: &str) -> usize {
    scene.told().await.iter().filter(|told| *told == word).count()
}

async fn reboot(nodes: &mut Nodes) {
    nodes.fleet.reboot(0).await.unwrap();
    nodes.ready().await;
}

async fn metric(scene: &Scene, name: &str) -> i64 {
    let text = scene.kit.operator().get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_ends_cells_and_restarts_those_whose_policy_says_so() {
    for database in Database::both() {
        let (scene, mut nodes) = with_agent(database).await;
        scene.running("kept", "a", json!({"services": service(), "restart": "always"})).await;
        scene.running("left", "a", json!({"services": service()})).await;
        assert_eq!(metric(&scene, "muster_cells_dead").await, 0);
        reboot(&mut nodes).await;
        until("the one is restarted", async || {
            let kept = scene.cell("kept").await;
            kept["incarnation"] == 2 && kept["state"] == "running" && kept["health"] == "healthy"
        })
        .await;
        let left = scene.cell("left").await;
        assert_eq!((&left["incarnation"], &left["health"]), (&json!(1), &json!("unhealthy")), "{left:#}");
        assert!(left["health_message"].as_str().unwrap().contains("rebooted"), "{left:#}");
        assert_eq!(left["status"]["alive"], false);
        assert_eq!(count(&scene, "cell.exited").await, 2);
        assert_eq!(metric(&scene, "muster_cells_dead").await, 1, "the one that is left as it is");
        let operation = scene.cell("kept").await["operation_id"].as_str().unwrap().to_owned();
        let operation = scene.admin.get(&format!("/v1/operations/{operation}")).await.ok().body;
        assert_eq!((&operation["kind"], &operation["state"]), (&json!("cell.restart"), &json!("succeeded")));
        assert_eq!(operation["actor_id"], "platform", "{operation:#}");
        // Operators find the cause in the node's own events.
        scene.kit.sealed().await;
        let told = scene.kit.operator().get("/v1/events?page_size=200").await.ok().body;
        let rebooted = told["items"].as_array().unwrap().iter();
        let rebooted: Vec<&Value> =
            rebooted.filter(|event| event["type"] == "dev.muster.node.rebooted.v1").collect();
        assert_eq!(rebooted.len(), 1, "{told:#}");
        assert_eq!(rebooted[0]["data"]["cells"], 2);
        stop(scene, nodes).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_is_restarted_three_times_an_hour_and_then_left_to_its_owner() {
    let (scene, mut nodes) = with_agent(Database::sqlite()).await;
    scene.running("kept", "a", json!({"services": service(), "restart": "always"})).await;
    for round in 2..=4_i64 {
        reboot(&mut nodes).await;
        until("it is restarted", async || {
            let kept = scene.cell("kept").await;
            kept["incarnation"] == round && kept["state"] == "running"
        })
        .await;
    }
    reboot(&mut nodes).await;
    until("its policy gives up", async || count(&scene, "cell.restart_suspended").await == 1).await;
    let kept = scene.cell("kept").await;
    assert_eq!((&kept["incarnation"], &kept["health"]), (&json!(4), &json!("unhealthy")), "{kept:#}");
    // The owner's restart still works.
    scene.done(scene.act("cells/kept/restart").await).await;
    assert_eq!(scene.cell("kept").await["incarnation"], 5);
    assert_eq!(count(&scene, "cell.restart_suspended").await, 1, "it is told once");
    stop(scene, nodes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_on_a_node_that_does_not_answer_is_not_restarted() {
    let (scene, mut nodes) = with_agent(Database::sqlite()).await;
    let cell = scene.running("kept", "a", json!({"services": service(), "restart": "always"})).await;
    nodes.fleet.partition(0, true);
    nodes.fleet.reboot(0).await.unwrap();
    let node = nodes.ids[0];
    let now = muster_ids::Env::system().now();
    let report = muster_db::CellReport {
        cell_id: cell["id"].as_str().unwrap().parse().unwrap(),
        incarnation: 1,
        alive: false,
        services: json!([]),
        message: None,
        boot_id: "one".to_owned(),
    };
    let mut tx = scene.kit.store().begin().await.unwrap();
    assert!(tx.node_lost(node, now).await.unwrap());
    assert!(tx.cell_observe(node, &report, now).await.unwrap());
    tx.commit().await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let kept = scene.cell("kept").await;
    assert_eq!((&kept["incarnation"], &kept["state"]), (&json!(1), &json!("running")), "nothing was begun");
    let id: CellId = kept["id"].as_str().unwrap().parse().unwrap();
    assert!(scene.kit.store().operation_open_on(id.uuid()).await.unwrap().is_empty());
    nodes.fleet.partition(0, false);
    until("the node is back and it is restarted", async || {
        let kept = scene.cell("kept").await;
        kept["incarnation"] == 2 && kept["state"] == "running"
    })
    .await;
    stop(scene, nodes).await;
}
