//! Draining a node under an app: the dry run lists the action for each member, no member is removed before its successor
//! is active, and no drain succeeds while a replacement is blocked.

use muster_testkit::{Client, Database};
use serde_json::{Value, json};

use super::{Good, Stage, pool, publish_as};
use crate::cell::until;

/// The instance `farm` of a release with a stateful head that is replaced old-first; all members are on one node.
struct Farm {
    stage: Stage,
    operator: Client,
    /// Path of the node that hosts everything.
    node: String,
}

impl Farm {
    async fn new(database: Database, workers: i64) -> Self {
        let stage = Stage::new(database).await;
        let mut manifest = pool("2");
        manifest["components"][0]["replace_order"] = json!("old_first");
        manifest["components"][0]["state"] = json!(["/data"]);
        manifest["components"][1]["count"]["max"] = json!(1);
        publish_as(&stage.scene, "2", manifest).await;
        let adapter = Good::start(&stage);
        let body = json!({"name": "farm", "app": "pool", "app_version": "2",
                          "components": [{"component_key": "worker", "count": workers}]});
        stage.scene.done(stage.post("app-instances", body).await).await;
        adapter.stop().await;
        let operator = stage.scene.kit.operator();
        let node = format!("/v1/nodes/{}", node_of(&stage, "farm-head-1").await.as_str().unwrap());
        Self { stage, operator, node }
    }

    async fn drain(&self, body: Value) -> Value {
        self.operator.post(&format!("{}/drain", self.node), body).await.ok().body
    }

    async fn operation(&self, id: &Value, wait_seconds: u32) -> Value {
        let path = format!("/v1/operations/{}?wait_seconds={wait_seconds}", id.as_str().unwrap());
        self.operator.get(&path).await.ok().body
    }

    /// Returns a member's item of a drain or of its plan.
    fn of<'v>(items: &'v Value, name: &str) -> &'v Value {
        let found = items.as_array().and_then(|items| items.iter().find(|item| item["name"] == name));
        found.unwrap_or_else(|| panic!("{name} is not in {items:#}"))
    }
}

async fn node_of(stage: &Stage, member: &str) -> Value {
    let member = stage.member(member).await;
    let allocation = member["allocation_id"].as_str().unwrap();
    stage.get(&format!("allocations/{allocation}")).await["node_id"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_says_what_would_happen_and_removes_nothing_before_its_successor_is_there() {
    for database in Database::both() {
        let farm = Farm::new(database, 1).await;
        let stage = &farm.stage;
        let state = async |name: &str| stage.member(name).await["state"].clone();
        assert_eq!(node_of(stage, "farm-worker-1").await, node_of(stage, "farm-head-1").await);
        // The other node has no room left beside this.
        let filler = json!({"name": "filler", "cpus": 8});
        stage.scene.done(stage.post("allocations", filler).await).await;
        let plan = farm.drain(json!({"dry_run": true})).await["plan"]["items"].clone();
        let (head, worker) = (Farm::of(&plan, "farm-head-1"), Farm::of(&plan, "farm-worker-1"));
        assert_eq!((&head["action"], &worker["action"]), (&json!("wait"), &json!("replace")));
        let says = |item: &Value, words: &str| {
            assert!(item["message"].as_str().unwrap().contains(words), "{item:#}")
        };
        says(head, "farm-head-1 is replaced old-first: it stops before its successor starts");
        says(worker, "its successor becomes active before it is removed; no capacity now: ");
        says(worker, "needs 1 CPU; most free on one node: 0");
        let plan = farm.drain(json!({"dry_run": true, "force": true})).await["plan"]["items"].clone();
        says(Farm::of(&plan, "farm-head-1"), "its state is lost: /data");
        let plan = stage.order("replace", json!({"members": ["farm-head-1"], "dry_run": true})).await.ok();
        says(
            &plan.body["plan"]["items"][0],
            "whose capacity is reserved first; capacity is available now; its state is lost: /data",
        );

        let id = farm.drain(json!({"deadline_seconds": 600})).await["operation"]["id"].clone();
        until("the worker waits for room", async || {
            let items = farm.operation(&id, 0).await["items"].clone();
            let worker =
                items.as_array().and_then(|items| items.iter().find(|item| item["name"] == "farm-worker-1"));
            worker.is_some_and(|worker| worker["message"].to_string().contains("waiting in the queue"))
        })
        .await;
        let waiting = farm.operation(&id, 0).await;
        assert_eq!(waiting["state"], "running");
        assert!(waiting["waiting"].to_string().contains("old-first"), "{waiting:#}");
        assert_eq!(
            (state("farm-head-1").await, state("farm-worker-1").await),
            (json!("active"), json!("active"))
        );
        assert_eq!(Farm::of(&waiting["items"], "farm-head-1")["state"], "pending");

        // With room the worker moves, and the head stays.
        let adapter = Good::start(stage);
        stage.scene.done(stage.post("allocations/filler/release", json!({})).await).await;
        until("the worker has moved", async || {
            Farm::of(&farm.operation(&id, 0).await["items"], "farm-worker-1")["state"] == "succeeded"
        })
        .await;
        assert_eq!(
            (state("farm-head-1").await, state("farm-worker-2").await),
            (json!("active"), json!("active"))
        );
        assert_ne!(node_of(stage, "farm-worker-2").await, node_of(stage, "farm-head-1").await);
        let waiting = farm.operation(&id, 0).await;
        assert_eq!(waiting["state"], "running", "{waiting:#}");
        farm.operator.post(&format!("/v1/operations/{}/cancel", id.as_str().unwrap()), json!({})).await.ok();
        assert_eq!(farm.operation(&id, 20).await["state"], "cancelled");
        assert_eq!(state("farm-head-1").await, "active");

        // With force the head is replaced too.
        let id = farm.drain(json!({"deadline_seconds": 600, "force": true})).await["operation"]["id"].clone();
        let ended = farm.operation(&id, 20).await;
        assert_eq!(ended["state"], "succeeded", "{ended:#}");
        assert_eq!(state("farm-head-2").await, "active");
        adapter.stop().await;
        farm.stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_names_the_replacement_that_blocks_it() {
    let farm = Farm::new(Database::sqlite(), 0).await;
    let id = farm.drain(json!({"deadline_seconds": 600, "force": true})).await["operation"]["id"].clone();
    farm.stage
        .fail_joins(async || {
            let drain = farm.operation(&id, 0).await;
            let items = drain["items"].as_array().cloned().unwrap_or_default();
            let blocked = items.iter().any(|item| item["state"] == "blocked");
            blocked && drain["blocked_by"].as_array().is_some_and(|blocked| !blocked.is_empty())
        })
        .await;
    let drain = farm.operation(&id, 0).await;
    let blocked = &drain["blocked_by"][0];
    assert_eq!(
        (&blocked["kind"], &blocked["subject_name"]),
        (&json!("member.replace"), &json!("farm-head-1"))
    );
    let head = Farm::of(&drain["items"], "farm-head-1");
    assert_eq!((&head["state"], &head["operation_id"]), (&json!("blocked"), &blocked["operation_id"]));
    assert_eq!(drain["state"], "running", "an empty node is no success: {drain:#}");
    let health = async || farm.stage.get("app-instances/farm").await["health"].clone();
    until("an instance without its head is unhealthy", async || health().await == "unhealthy").await;
    let message = farm.stage.get("app-instances/farm").await["health_message"].clone();
    // The failure of the successor is the reason as soon as it is assessed.
    let reasons = [json!("head has 0 of 1 active members"), json!("farm-head-2: refuses: it cannot")];
    assert!(reasons.contains(&message), "{message}");
    // Its owner has the replacement tried again, in the room that was kept for it.
    let adapter = Good::start(&farm.stage);
    let retry = format!("/v1/operations/{}/resolve", blocked["operation_id"].as_str().unwrap());
    farm.stage.scene.admin.post(&retry, json!({"action": "retry"})).await.ok();
    let ended = farm.operation(&id, 20).await;
    assert_eq!(ended["state"], "succeeded", "{ended:#}");
    assert_eq!(farm.stage.member("farm-head-2").await["state"], "active");
    adapter.stop().await;
    farm.stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_failed_member_comes_back_beside_as_many_as_there_may_be() {
    let farm = Farm::new(Database::sqlite(), 1).await;
    let stage = &farm.stage;
    // The successor of an active member fails to join, and the old one stays active.
    let replace = stage.order("replace", json!({"members": ["farm-worker-1"]})).await.ok();
    stage
        .fail_joins(async || {
            let members = stage.members().await;
            members.iter().any(|member| member["name"] == "farm-worker-2" && member["state"] == "failed")
        })
        .await;
    let adapter = Good::start(stage);
    assert_eq!(stage.scene.ended(&replace).await["state"], "failed");
    assert_eq!(stage.member("farm-worker-1").await["state"], "active");
    // One exists, and one is the maximum.
    for (verb, force) in [("replace", false), ("replace", true), ("recover", false)] {
        for dry_run in [true, false] {
            let mut body = json!({"members": ["farm-worker-2"], "dry_run": dry_run});
            if force {
                body["force"] = json!(true);
            }
            let refused = stage.order(verb, body).await.refused(409, "invalid_state");
            let why = "worker can have 1 members, but 2 would be desired";
            assert!(refused.body["detail"].as_str().unwrap().contains(why), "{verb}: {}", refused.text);
        }
    }
    stage.scene.done(stage.order("remove", json!({"members": ["farm-worker-2"]})).await).await;
    adapter.stop().await;
    farm.stage.stop().await;
}
