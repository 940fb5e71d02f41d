//! Capacity over HTTP: `capacity`, dry runs, `create` and its failures agree, and name the short resource.

use std::time::Duration;

use jiff::SignedDuration;
use muster_ids::Env;
use muster_testkit::Database;
use serde_json::{Value, json};

use crate::allocation::{Agent, Scene, on_both};
use crate::fleet_api::machine;

on_both! {
    capacity_dry_run_and_create_agree
    a_silent_node_is_offered_to_no_one
}

/// A deterministic pseudo-random generator of small numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns the response of `muster capacity` to a request.
async fn capacity(scene: &Scene, ask: &Value) -> Value {
    let named = |name: &str| match &ask[name] {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={text}")),
        other => Some(format!("{name}={other}")),
    };
    let query: Vec<String> =
        ["gpus", "cpus", "memory_mb", "disk_mb", "shape"].into_iter().filter_map(named).collect();
    let path = format!("/v1/projects/{}/capacity?{}", scene.project, query.join("&"));
    scene.admin.get(&path).await.ok().body
}

async fn capacity_dry_run_and_create_agree(database: Database) {
    let scene = Scene::new(database, true).await;
    let other = machine(&scene.kit, "other", 1).await;
    let _agent = Agent::of(&scene.kit, other);
    let mut chance = Chance(15);
    let (mut given, mut short, mut held) = (0, 0, Vec::new());
    for number in 0..36 {
        let name = format!("a{number}");
        let mut ask = json!({"name": name, "gpus": chance.below(5)});
        for (field, most) in [("cpus", 65), ("memory_mb", 300_000), ("disk_mb", 1_200_000)] {
            if chance.below(3) > 0 {
                ask[field] = json!(chance.below(most));
            }
        }
        if chance.below(6) == 0 {
            ask["shape"] = json!("baremetal");
        }
        let foreseen = capacity(&scene, &ask).await;
        let mut dry = ask.clone();
        dry["dry_run"] = json!(true);
        let plan = scene.create(dry).await;
        if plan.status == 400 {
            scene.create(ask.clone()).await.refused(400, "invalid_request");
            assert_eq!(foreseen["fits_now"], false, "{ask}");
            let why = plan.body["errors"][0]["detail"].as_str().unwrap();
            assert_eq!(foreseen["message"], why, "what can never be is said in the same words");
            continue;
        }
        let plan = plan.ok().body["plan"].clone();
        assert_eq!(plan["fits_now"], foreseen["fits_now"], "{ask}: {foreseen}");
        assert_eq!(plan["short"], foreseen["message"], "{ask}");
        let ended = scene.ended(&scene.create(ask.clone()).await.ok()).await;
        if foreseen["fits_now"] == true {
            assert_eq!(ended["state"], "succeeded", "{ask}: {ended:#}");
            given += 1;
            held.push(name);
        } else {
            assert_eq!(
                (&ended["state"], &ended["reason"]),
                (&json!("failed"), &json!("no_capacity")),
                "{ask}"
            );
            assert_eq!(ended["message"], foreseen["message"], "the failure names the same resource");
            short += 1;
        }
        if held.len() > 2 {
            let first = held.remove(0);
            let released = scene.admin.post(&format!("{}/{first}/release", scene.base), json!({})).await.ok();
            assert_eq!(scene.ended(&released).await["state"], "succeeded");
        }
    }
    assert!(given > 5 && short > 5, "{given} given, {short} refused: too one-sided to mean anything");
    scene.kit.stop().await;
}

async fn a_silent_node_is_offered_to_no_one(database: Database) {
    let scene = Scene::new(database, false).await;
    let store = scene.kit.store().clone();
    let ask = json!({"name": "a", "gpus": 1});
    assert_eq!(capacity(&scene, &ask).await["fits_now"], true);
    let minute_ago = Env::system().now() - SignedDuration::from_mins(1);
    store.heartbeat_write(&[scene.node], &[], minute_ago).await.unwrap();
    let node = scene.operator.get("/v1/nodes/machine").await.ok().body;
    assert_eq!(node["state"], "ready", "nothing is decided about it yet");
    let none = capacity(&scene, &ask).await;
    assert_eq!((&none["fits_now"], &none["reason"]), (&json!(false), &json!("no_node")));
    let why = none["message"].as_str().unwrap();
    assert!(why.contains("1 node with enough free missed the last heartbeats"), "{why}");
    let dry = scene.create(json!({"name": "a", "gpus": 1, "dry_run": true})).await.ok().body;
    assert_eq!(dry["plan"]["fits_now"], false);
    let started = scene.create(ask).await.ok();
    let id = started.body["operation"]["id"].as_str().unwrap();
    let mut waiting = String::new();
    for _ in 0..100 {
        let operation = scene.admin.get(&format!("/v1/operations/{id}")).await.ok().body;
        waiting = operation["waiting"].as_str().unwrap_or_default().to_owned();
        if waiting.contains("heartbeat") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(waiting.starts_with("1 node has enough free, but its last heartbeat was 6"), "{waiting}");
    let _agent = Agent::of(&scene.kit, scene.node);
    assert_eq!(scene.ended(&started).await["state"], "succeeded", "it is heard again");
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_beyond_every_node_is_refused_immediately() {
    let scene = Scene::new(Database::sqlite(), false).await;
    for also in [json!({}), json!({"wait_until": "2199-01-01T00:00:00Z"}), json!({"dry_run": true})] {
        let mut ask = json!({"name": "big", "gpus": 16});
        ask.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
        let refused = scene.create(ask).await.refused(400, "invalid_request");
        let fault = &refused.body["errors"][0];
        assert_eq!(fault["pointer"], "/gpus");
        assert_eq!(fault["detail"], "no node has 16 GPUs; the largest has 4");
    }
    let refused =
        scene.create(json!({"name": "big", "memory_mb": 1_000_000})).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/memory_mb");
    assert_eq!(
        scene.admin.get(&scene.base).await.ok().body["items"],
        json!([]),
        "none of this left anything"
    );
    // The size of a node counts, not its usage or whether it responds.
    let cordon = format!("/v1/nodes/{}/cordon", scene.node);
    scene.operator.post(&cordon, json!({"reason": "a test"})).await.ok();
    scene.create(json!({"name": "all", "gpus": 4, "wait_until": "2199-01-01T00:00:00Z"})).await.ok();
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_means_what_create_means() {
    let scene = Scene::new(Database::sqlite(), true).await;
    let all_cpus = scene.create(json!({"name": "h", "cpus": 64})).await.ok();
    assert_eq!(scene.ended(&all_cpus).await["state"], "succeeded");
    let report = capacity(&scene, &json!({"gpus": 1})).await;
    let asked = json!({"gpus": 1, "cpus": 1, "memory_mb": 1024, "disk_mb": 1024});
    assert_eq!((&report["capacity"], &report["fits_now"]), (&asked, &json!(false)));
    assert_eq!(report["reason"], "cpus");
    assert_eq!(report["message"], "needs 1 CPU; most free on one node: 0");
    let ended = scene.ended(&scene.create(json!({"name": "g", "gpus": 1})).await.ok()).await;
    assert_eq!(ended["message"], report["message"]);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_exceeded_names_limit_used_and_asked() {
    let scene = Scene::new(Database::sqlite(), true).await;
    let request =
        scene.operator.request(reqwest::Method::PATCH, &format!("/v1/projects/{}/quota", scene.project));
    let limits = json!({"max_gpus": 3, "max_allocations": 2});
    scene.operator.send(request.header("if-match", "*").json(&limits)).await.ok();
    scene.ended(&scene.create(json!({"name": "a", "gpus": 2})).await.ok()).await;
    let says = "the project's quota allows 3 GPUs: 2 used, 2 more requested";
    let refused = scene.create(json!({"name": "b", "gpus": 2})).await.refused(409, "quota_exceeded");
    assert_eq!(refused.body["detail"], says);
    let plan = scene.create(json!({"name": "b", "gpus": 2, "dry_run": true})).await.ok().body["plan"].clone();
    assert_eq!((&plan["fits_now"], &plan["short"]), (&json!(false), &json!(says)));
    assert_eq!(capacity(&scene, &json!({"gpus": 2})).await["message"], says);
    scene.ended(&scene.create(json!({"name": "b"})).await.ok()).await;
    let refused = scene.create(json!({"name": "c"})).await.refused(409, "quota_exceeded");
    assert_eq!(refused.body["detail"], "the project's quota allows 2 allocations: 2 used, 1 more requested");
    scene.kit.stop().await;
}
