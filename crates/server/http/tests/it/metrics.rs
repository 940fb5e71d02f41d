//! The metrics of `/metrics` follow what happens on the platform.

use jiff::SignedDuration;
use muster_agent_sim::Odds;
use muster_ids::{Env, InstanceId, NodeId};
use muster_testkit::Database;
use serde_json::{Value, json};

use crate::cell::{Scene, until};
use crate::instance::Stage;

/// Returns the value of a metric, by its name with labels, or 0 if it is absent: an empty family is not printed.
async fn metric(stage: &Stage, name: &str) -> f64 {
    let text = stage.scene.kit.operator().get("/metrics").await.text;
    let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    found.map_or(0.0, |value| value.parse().unwrap())
}

async fn is_soon(stage: &Stage, name: &str, value: f64) {
    until(&format!("{name} is {value}"), async || metric(stage, name).await == value).await;
}

fn id<T: std::str::FromStr>(value: &Value) -> T
where
    T::Err: std::fmt::Debug,
{
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_count_nodes_gpus_instances_members_and_operations() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        assert_eq!(metric(&stage, "muster_nodes{what=\"ready\"}").await, 2.0);
        assert_eq!(metric(&stage, "muster_gpus_free").await, 4.0);
        is_soon(&stage, "muster_polls_waiting", 2.0).await;
        stage.running(3).await;
        assert_eq!(metric(&stage, "muster_instances{state=\"running\",health=\"healthy\"}").await, 1.0);
        assert_eq!(metric(&stage, "muster_members{state=\"active\",health=\"healthy\"}").await, 4.0);
        assert_eq!(metric(&stage, "muster_operations{what=\"running\"}").await, 0.0);
        let ended = "muster_operations_ended_total{what=\"instance.create succeeded\"}";
        assert_eq!(metric(&stage, ended).await, 1.0);

        // A drain that no adapter takes up is an unfinished operation, and its member is on its way.
        stage.order("drain", json!({"members": ["farm-worker-1"]})).await.ok();
        is_soon(&stage, "muster_members{state=\"draining\",health=\"healthy\"}", 1.0).await;
        assert_eq!(metric(&stage, "muster_members{state=\"active\",health=\"healthy\"}").await, 3.0);
        is_soon(&stage, "muster_operations{what=\"running\"}", 1.0).await;

        // A GPU in use cannot be claimed, and neither can those of a cordoned node.
        stage.scene.allocate("held", 1).await;
        assert_eq!(metric(&stage, "muster_gpus_free").await, 3.0);
        let held: NodeId = id(&stage.get("allocations/held").await["node_id"]);
        let operator = stage.scene.kit.operator();
        operator.post(&format!("/v1/nodes/{held}/cordon"), json!({"reason": "a test"})).await.ok();
        assert_eq!(metric(&stage, "muster_nodes{what=\"cordoned\"}").await, 1.0);
        assert_eq!(metric(&stage, "muster_nodes{what=\"ready\"}").await, 1.0);
        assert_eq!(metric(&stage, "muster_gpus_free").await, 2.0);
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gauges_count_what_is_overdue_or_unconfirmed() {
    for database in Database::both() {
        let scene = Scene::with(database, 1, &[("nodes.heartbeat_seconds", "1")]).await;
        let stage = Stage::with(scene, Odds::default()).await;
        stage.running(1).await;
        assert_eq!(metric(&stage, "muster_reconciles_overdue").await, 0.0);
        assert_eq!(metric(&stage, "muster_nodes_unconfirmed").await, 0.0);
        // No adapter takes the reconcile up. A delay of less than a minute is none.
        let instance: InstanceId = id(&stage.get("app-instances/farm").await["id"]);
        let suspect = async |seconds: i64| {
            let at = Env::system().now() - SignedDuration::from_secs(seconds);
            let mut tx = stage.scene.kit.store().begin().await.unwrap();
            tx.instance_schedule_reconcile(instance, at).await.unwrap();
            tx.commit().await.unwrap();
        };
        suspect(30).await;
        assert_eq!(metric(&stage, "muster_reconciles_overdue").await, 0.0);
        suspect(90).await;
        assert_eq!(metric(&stage, "muster_reconciles_overdue").await, 1.0);

        // A node that polls and does not confirm its cells counts after three heartbeats, and no more once it confirms.
        stage.nodes.fleet.set_unobservable(0, true);
        is_soon(&stage, "muster_nodes_unconfirmed", 1.0).await;
        stage.nodes.fleet.set_unobservable(0, false);
        is_soon(&stage, "muster_nodes_unconfirmed", 0.0).await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_count_requests_refusals_replays_seals_and_heartbeats() {
    let scene = Scene::with(Database::sqlite(), 1, &[("nodes.heartbeat_seconds", "1")]).await;
    let stage = Stage::with(scene, Odds::default()).await;
    let kit = &stage.scene.kit;
    let refusals = metric(&stage, "muster_anonymous_refusals_total").await;
    kit.client_of(0, "mst_nobody").get("/v1/whoami").await.refused(401, "unauthenticated");
    assert_eq!(metric(&stage, "muster_anonymous_refusals_total").await, refusals + 1.0);

    let before = metric(&stage, "muster_http_request_seconds_count").await;
    stage.get("allocations").await;
    let after = metric(&stage, "muster_http_request_seconds_count").await;
    assert!(after > before, "{after} requests, {before} before");

    let replays = metric(&stage, "muster_idempotent_replays_total").await;
    let create = async || {
        let body = json!({"name": "robot", "permissions": []});
        stage.scene.admin.post_with_key(&stage.at("service-accounts"), body, "once").await.ok()
    };
    create().await;
    assert_eq!(metric(&stage, "muster_idempotent_replays_total").await, replays);
    create().await;
    assert_eq!(metric(&stage, "muster_idempotent_replays_total").await, replays + 1.0);

    kit.sealed().await;
    assert!(metric(&stage, "muster_sealed_rows_total").await > 0.0);
    let heartbeats = metric(&stage, "muster_node_heartbeats_total").await;
    until("another heartbeat is written", async || {
        metric(&stage, "muster_node_heartbeats_total").await > heartbeats
    })
    .await;
    stage.stop().await;
}
