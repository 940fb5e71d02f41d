//! Capacity for an instance, and cleanup after a launch that found none.

use muster_testkit::{Answer, Database};
use serde_json::{Value, json};

use super::{Good, Stage};

fn launch(workers: i64, also: Value) -> Value {
    let mut body = json!({"name": "farm", "app": "pool", "app_version": "1",
                          "components": [{"component_key": "worker", "count": workers}]});
    body.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
    body
}

/// Returns the ended operation: a launch and its rollback have many steps, so that one wait may not suffice.
async fn ended(stage: &Stage, started: &Answer) -> Value {
    let mut operation = Value::Null;
    for _ in 0..6 {
        operation = stage.scene.ended(started).await;
        if !operation["finished_at"].is_null() {
            break;
        }
    }
    operation
}

/// Returns workers with this many CPUs each.
fn large(count: i64, cpus: i64) -> Value {
    let capacity = json!({"gpus": 0, "cpus": cpus, "memory_mb": 256, "disk_mb": 64});
    json!([{"component_key": "worker", "count": count, "capacity": capacity}])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_whether_there_is_room_and_what_is_short() {
    let stage = Stage::new(Database::sqlite()).await;
    let plan =
        async |also: Value| stage.post("app-instances", launch(2, also)).await.ok().body["plan"].clone();
    let fits = plan(json!({"dry_run": true})).await;
    assert_eq!(fits["fits_now"], true, "{fits:#}");
    let adds = json!([{"component_key": "head", "count": 1}, {"component_key": "worker", "count": 2}]);
    assert_eq!((&fits["adds"], &fits["locks"]), (&adds, &json!(["farm"])), "no throw-away ids");
    assert!(fits["expected_seconds"].as_i64().unwrap() > 10, "two components, one after the other: {fits:#}");

    // Two nodes with 8 CPUs each: the head takes one, and one worker with 7 fits on each.
    let short = plan(json!({"dry_run": true, "components": large(3, 7)})).await;
    assert_eq!(short["fits_now"], false);
    assert_eq!(short["short"], "worker: 2 of 3 fit; the next needs 7 CPUs; most free on one node: 1");
    assert_eq!(stage.get("app-instances").await["items"], json!([]));

    stage.running(1).await;
    let scale =
        async |body: Value| stage.post("app-instances/farm/scale", body).await.ok().body["plan"].clone();
    let more = scale(json!({"components": large(2, 8), "dry_run": true})).await;
    assert_eq!((&more["fits_now"], &more["locks"]), (&json!(true), &json!(["farm"])));
    let more = scale(json!({"components": large(3, 8), "dry_run": true})).await;
    assert!(
        more["short"].as_str().unwrap().starts_with("worker: 1 of 2 fit; the next needs 8 CPUs"),
        "{more:#}"
    );
    let add = json!({"component_key": "worker", "count": 2, "dry_run": true,
                     "allocation": {"capacity": {"gpus": 0, "cpus": 8, "memory_mb": 256, "disk_mb": 64}}});
    let added = stage.order("add", add).await.ok().body["plan"].clone();
    assert_eq!((&added["fits_now"], &added["locks"]), (&json!(false), &json!(["farm"])));
    assert_eq!(added["adds"], json!([{"component_key": "worker", "count": 2}]));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_no_node_could_hold_are_refused_at_once() {
    let stage = Stage::new(Database::sqlite()).await;
    let refused = stage.post("app-instances", launch(1, json!({"components": large(1, 9)}))).await;
    let refused = refused.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/components/0/capacity/cpus");
    assert_eq!(refused.body["errors"][0]["detail"], "no node has 9 CPUs; the largest has 8");
    assert_eq!(stage.get("app-instances").await["items"], json!([]));
    stage.running(1).await;
    let scale = json!({"components": large(2, 9)});
    stage.post("app-instances/farm/scale", scale).await.refused(400, "invalid_request");
    let capacity = json!({"gpus": 3, "cpus": 1, "memory_mb": 256, "disk_mb": 64});
    let add = json!({"component_key": "worker", "allocation": {"capacity": capacity}});
    let refused = stage.order("add", add).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/allocation/capacity/gpus");

    let request = stage.scene.kit.operator();
    let path = stage.at("quota");
    let limit =
        request.request(reqwest::Method::PATCH, &path).header("if-match", "*").json(&json!({"max_cpus": 3}));
    request.send(limit).await.ok();
    let scale = json!({"components": [{"component_key": "worker", "count": 4}]});
    let refused = stage.post("app-instances/farm/scale", scale).await.refused(409, "quota_exceeded");
    assert_eq!(refused.body["detail"], "the project's quota allows 3 CPUs: 2 used, 3 more requested");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_failed_and_left_nothing_frees_its_name() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        let adapter = Good::start(&stage);
        // Each worker fits individually, but not all three.
        let failed = stage.post("app-instances", launch(3, json!({"components": large(3, 7)}))).await.ok();
        let undone = ended(&stage, &failed).await;
        assert_eq!(undone["state"], "failed", "{undone:#}");
        assert!(
            undone["message"].as_str().unwrap().contains("needs 7 CPUs; most free on one node: "),
            "{undone:#}"
        );
        let first = stage.get("app-instances/farm").await;
        assert_eq!(first["state"], "failed");
        let started = stage.post("app-instances", launch(1, json!({}))).await.ok();
        assert_eq!(ended(&stage, &started).await["state"], "succeeded");
        let second = stage.get("app-instances/farm").await;
        assert_eq!(second["state"], "running", "the name leads to the one that lives");
        assert_ne!((&second["id"], &second["network_id"]), (&first["id"], &first["network_id"]));
        stage.post("app-instances", launch(1, json!({}))).await.refused(409, "name_taken");
        // A failed instance is decommissioned like any other, by its id, without affecting the other one.
        let id = first["id"].as_str().unwrap();
        let started = stage.post(&format!("app-instances/{id}/decommission"), json!({})).await.ok();
        assert_eq!(ended(&stage, &started).await["state"], "succeeded");
        assert_eq!(stage.get(&format!("app-instances/{id}")).await["state"], "stopped");
        assert_eq!(stage.get("app-instances/farm").await["state"], "running");
        adapter.stop().await;
        stage.stop().await;
    }
}
