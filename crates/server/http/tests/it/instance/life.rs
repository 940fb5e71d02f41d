//! Lifecycle of an instance, from its launch to the evidence that nothing of it is left.

use muster_testkit::Database;
use serde_json::json;

use super::{Good, Stage, publish};

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_launched_grown_drained_mended_upgraded_and_taken_down() {
    for database in Database::both() {
        life(database).await;
    }
}

async fn life(database: Database) {
    let stage = Stage::new(database).await;
    let made = stage.running(2).await;
    assert_eq!(
        (made["state"].as_str(), made["health"].as_str()),
        (Some("running"), Some("healthy")),
        "{made:#}"
    );
    let worker = &made["topology"]["components"][1];
    assert_eq!(
        (&worker["component_key"], &worker["desired"], &worker["current"]),
        (&json!("worker"), &json!(2), &json!(2))
    );
    assert_eq!(worker["capacity"]["memory_mb"], 256);
    let endpoints = stage.get("app-instances/farm/endpoints").await;
    let named: Vec<_> =
        endpoints["endpoints"].as_array().unwrap().iter().map(|one| one["member"].clone()).collect();
    assert_eq!(named, ["farm-head-1", "farm-worker-1", "farm-worker-2"]);
    assert!(endpoints["endpoints"][0]["address"].as_str().unwrap().starts_with("10."));
    let adapter = Good::start(&stage);
    let scene = &stage.scene;

    scene.done(stage.order("add", json!({"component_key": "worker"})).await).await;
    assert_eq!(stage.member("farm-worker-3").await["state"], "active");
    scene.done(stage.order("drain", json!({"members": ["farm-worker-3"]})).await).await;
    let drained = stage.member("farm-worker-3").await;
    assert_eq!(drained["state"], "drained");
    assert!(drained["drained_witness_id"].is_string());
    let upgrade = stage
        .post("app-instances/farm/upgrade", json!({"app_version": "1", "config": {"partitions": 3}}))
        .await;
    let refused = upgrade.refused(409, "invalid_state");
    assert!(refused.text.contains("farm-worker-3 is drained"), "it would be left behind: {}", refused.text);
    scene.done(stage.order("resume", json!({"members": [drained["id"]]})).await).await;
    assert_eq!(stage.member("farm-worker-3").await["state"], "active");
    assert_eq!(scene.data_of("member.resumed").await.len(), 1);
    scene.done(stage.order("replace", json!({"members": ["farm-worker-3"]})).await).await;
    let names: Vec<_> = stage.members().await.iter().map(|member| member["name"].clone()).collect();
    assert_eq!(names, ["farm-head-1", "farm-worker-1", "farm-worker-2", "farm-worker-4"]);
    scene.done(stage.order("remove", json!({"members": ["farm-worker-4"]})).await).await;

    let scale = json!({"components": [{"component_key": "worker", "count": 1}]});
    scene.done(stage.post("app-instances/farm/scale", scale).await).await;
    let names: Vec<_> = stage.members().await.iter().map(|member| member["name"].clone()).collect();
    assert_eq!(names, ["farm-head-1", "farm-worker-1"], "the newest goes first");
    let scale = json!({"components": [{"component_key": "worker", "count": 3}]});
    scene.done(stage.post("app-instances/farm/scale", scale).await).await;
    assert_eq!(stage.get("app-instances/farm").await["topology"]["components"][1]["current"], 3);

    publish(scene, "2").await;
    scene.done(stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await).await;
    assert_eq!(stage.get("app-instances/farm").await["app_version"], "2");
    scene.done(stage.post("app-instances/farm/rollback", json!({})).await).await;
    let back = stage.get("app-instances/farm").await;
    assert_eq!(back["app_version"], "1");
    assert!(stage.members().await.iter().all(|member| member["app_version_id"] == back["app_version_id"]));

    scene.done(stage.post("app-instances/farm/decommission", json!({"reason": "over"})).await).await;
    let over = stage.get("app-instances/farm").await;
    assert_eq!(over["state"], "stopped");
    assert!(over["stopped_witness_id"].is_string());
    assert_eq!(stage.members().await.len(), 0);
    adapter.stop().await;
    let told = scene.told().await;
    for word in [
        "instance.created",
        "member.requested",
        "instance.start_completed",
        "member.drained",
        "instance.stopped",
    ] {
        assert!(told.iter().any(|said| said == word), "{word} was not told");
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn applying_twice_changes_nothing_and_one_difference_is_mended_at_a_time() {
    let stage = Stage::new(Database::sqlite()).await;
    let adapter = Good::start(&stage);
    let as_it_is = json!({"name": "farm", "app": "pool", "app_version": "1", "config": {"partitions": 1},
                          "components": [{"component_key": "worker", "count": 1}]});
    stage.scene.done(stage.post("app-instances/apply", as_it_is.clone()).await).await;
    let again = stage.post("app-instances/apply", as_it_is).await.ok();
    assert!(again.body["operation"].is_null() && again.body["plan"]["steps"] == json!([]), "{}", again.text);

    let both = json!({"name": "farm", "app": "pool", "config": {"partitions": 2},
                      "labels": {"team": "ml"}, "protected": true,
                      "components": [{"component_key": "worker", "count": 2}]});
    let mut plan = both.clone();
    plan["dry_run"] = json!(true);
    let planned = stage.post("app-instances/apply", plan).await.ok();
    assert_eq!(planned.body["plan"]["app_version"], "1", "no release was named: {}", planned.text);
    assert_eq!(stage.get("app-instances/farm").await["labels"], json!({}), "a dry run writes nothing");
    let first = stage.post("app-instances/apply", both.clone()).await.ok();
    assert_eq!(first.body["operation"]["kind"], "instance.upgrade");
    let steps = first.body["plan"]["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["name"] == "remains"), "the plan says what is left: {steps:?}");
    let farm = stage.get("app-instances/farm").await;
    assert_eq!((&farm["labels"]["team"], &farm["protected"]), (&json!("ml"), &json!(true)), "at once");
    stage.scene.done(first).await;
    let second = stage.post("app-instances/apply", both.clone()).await.ok();
    assert_eq!(second.body["operation"]["kind"], "instance.scale");
    stage.scene.done(second).await;
    let third = stage.post("app-instances/apply", both).await.ok();
    assert!(third.body["operation"].is_null());
    let labels = json!({"name": "farm", "app": "pool", "labels": {"team": "it"}});
    let labelled = stage.post("app-instances/apply", labels).await.ok();
    assert!(labelled.body["operation"].is_null(), "no member changes: {}", labelled.text);
    assert_eq!(stage.get("app-instances/farm").await["labels"]["team"], "it");
    for (body, pointer) in [
        (json!({"shape": "baremetal"}), "/shape"),
        (
            json!({"components": [{"component_key": "worker",
                   "capacity": {"gpus": 0, "cpus": 7, "memory_mb": 256, "disk_mb": 64}}]}),
            "/components/0/capacity",
        ),
    ] {
        let mut asked = json!({"name": "farm", "app": "pool"});
        asked.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let refused = stage.post("app-instances/apply", asked).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], pointer, "{}", refused.text);
    }
    let other = json!({"slug": "other", "display_name": "Other"});
    stage.post("apps", other).await.ok();
    stage
        .post("app-instances/apply", json!({"name": "farm", "app": "other"}))
        .await
        .refused(409, "name_taken");
    adapter.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_is_under_way_can_be_taken_back() {
    let stage = Stage::new(Database::sqlite()).await;
    // There is no adapter, so it never starts running.
    let started =
        stage.post("app-instances", json!({"name": "farm", "app": "pool", "app_version": "1"})).await.ok();
    let adapter = async {
        crate::cell::until("a member joins", async || {
            stage.members().await.iter().any(|member| member["state"] == "joining")
        })
        .await;
        let force = json!({"force": true, "reason": "enough"});
        let taken = stage.post("app-instances/farm/decommission", force).await.ok();
        assert_eq!(taken.body["operation"]["supersedes"], started.body["operation"]["id"]);
        let good = Good::start(&stage);
        stage.scene.done(taken).await;
        good.stop().await;
    };
    adapter.await;
    let over = stage.scene.ended(&started).await;
    assert_eq!(over["state"], "superseded");
    assert_eq!(stage.get("app-instances/farm").await["state"], "stopped");
    stage.stop().await;
}
