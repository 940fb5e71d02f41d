//! Upgrades and rollbacks: a stuck one is superseded, and the configuration is restored with its release.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Good, Stage, pool, publish, publish_as};
use crate::cell::until;

/// Returns a release with workers that never become ready.
fn unready(version: &str) -> Value {
    let mut manifest = pool(version);
    manifest["components"][1]["witnesses"]["active"] =
        json!([{"in": "self", "exec": ["/bin/false"], "within": "1s"}]);
    manifest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_takes_over_from_an_upgrade_whose_members_never_get_ready() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(1).await;
        publish_as(&stage.scene, "2", unready("2")).await;
        let adapter = Good::start(&stage);
        let upgrade = stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await.ok();
        let id = upgrade.body["operation"]["id"].as_str().unwrap();
        until("the worker's part is blocked", async || {
            let now = stage.scene.admin.get(&format!("/v1/operations/{id}")).await.ok().body;
            now["items"].as_array().unwrap().iter().any(|item| item["state"] == "blocked")
        })
        .await;
        // Nothing else advances: a client can stop waiting, and knows how to handle the child.
        let path = format!("/v1/operations/{id}");
        let shown = async || stage.scene.admin.get(&path).await.ok().body;
        until("the upgrade names the child that blocks it", async || shown().await["blocked_by"].is_array())
            .await;
        let blocked = shown().await;
        assert_eq!(blocked["state"], "running", "{blocked:#}");
        let child = &blocked["blocked_by"][0];
        assert_eq!(
            child["operation_id"],
            blocked["items"].as_array().unwrap().iter().find(|item| item["state"] == "blocked").unwrap()["operation_id"]
        );
        assert_eq!(child["blocked"]["resolvable_by"], "tenant", "{blocked:#}");
        assert!(
            child["blocked"]["actions"].as_array().is_some_and(|actions| !actions.is_empty()),
            "{blocked:#}"
        );
        let back =
            stage.post("app-instances/farm/rollback", json!({"reason": "it does not work"})).await.ok();
        assert_eq!(back.body["operation"]["supersedes"], id, "{}", back.text);
        stage.scene.done(back).await;
        assert_eq!(stage.scene.ended(&upgrade).await["state"], "superseded");
        let farm = stage.get("app-instances/farm").await;
        assert_eq!(farm["app_version"], "1");
        for member in stage.members().await {
            assert_eq!(
                (&member["state"], &member["app_version_id"]),
                (&json!("active"), &farm["app_version_id"]),
                "{member:#}"
            );
        }
        adapter.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_brings_the_configuration_back_with_the_release() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(0).await;
        publish(&stage.scene, "2").await;
        let adapter = Good::start(&stage);
        let is = async || {
            let farm = stage.get("app-instances/farm").await;
            (farm["app_version"].as_str().unwrap().to_owned(), farm["config"].clone())
        };
        let upgrade = json!({"app_version": "2", "config": {"partitions": 2}});
        stage.scene.done(stage.post("app-instances/farm/upgrade", upgrade).await).await;
        assert_eq!(is().await, ("2".to_owned(), json!({"partitions": 2})));
        stage.scene.done(stage.post("app-instances/farm/rollback", json!({})).await).await;
        assert_eq!(is().await, ("1".to_owned(), json!({})));
        // Only the configuration changes, and so only that is rolled back.
        let upgrade = json!({"app_version": "1", "config": {"partitions": 3}});
        stage.scene.done(stage.post("app-instances/farm/upgrade", upgrade).await).await;
        assert_eq!(is().await, ("1".to_owned(), json!({"partitions": 3})));
        stage.scene.done(stage.post("app-instances/farm/rollback", json!({})).await).await;
        assert_eq!(is().await, ("1".to_owned(), json!({})));
        adapter.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn instance_on_a_deprecated_release_can_still_be_configured() {
    let stage = Stage::new(Database::sqlite()).await;
    publish(&stage.scene, "2").await;
    let step = async |version: &str, to: &str| {
        let body = json!({"to": to, "reason": "a test"});
        stage.post(&format!("apps/pool/versions/{version}/promote"), body).await.ok();
    };
    for to in ["canary", "active"] {
        step("1", to).await;
    }
    stage.running(0).await;
    for to in ["canary", "active"] {
        step("2", to).await;
    }
    assert_eq!(stage.get("apps/pool/versions/1").await["state"], "deprecated");
    let unnamed = json!({"name": "other", "app": "pool", "dry_run": true});
    let planned = stage.post("app-instances", unnamed).await.ok();
    assert_eq!(planned.body["plan"]["app_version"], "2", "the default is named: {}", planned.text);
    let adapter = Good::start(&stage);
    let upgrade = json!({"app_version": "1", "config": {"partitions": 2}});
    stage.scene.done(stage.post("app-instances/farm/upgrade", upgrade).await).await;
    let apply = json!({"name": "farm", "app": "pool", "config": {"partitions": 3}});
    stage.scene.done(stage.post("app-instances/apply", apply).await).await;
    let farm = stage.get("app-instances/farm").await;
    assert_eq!((&farm["app_version"], &farm["config"]["partitions"]), (&json!("1"), &json!(3)));
    // No new member may run it.
    stage.scene.done(stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await).await;
    stage.post("app-instances/farm/upgrade", json!({"app_version": "1"})).await.refused(409, "invalid_state");
    adapter.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_a_component_waits_until_the_last_member_of_it_is_gone() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(0).await;
    let mut manifest = pool("2");
    manifest["components"].as_array_mut().unwrap().truncate(1);
    publish_as(&stage.scene, "2", manifest).await;
    let add = stage.order("add", json!({"component_key": "worker"})).await.ok();
    let joins = async {
        loop {
            for step in stage.lease(1).await {
                let generation = step["step"]["generation"].as_i64().unwrap();
                match step["step"]["verb"].as_str() {
                    Some("join") => {
                        let why = json!({"reason": "refuses", "message": "it cannot"});
                        stage.say(&step, "fail", generation, why).await.ok();
                    }
                    _ => {
                        stage.say(&step, "complete", generation, json!({"message": "done"})).await.ok();
                        return;
                    }
                }
            }
        }
    };
    joins.await;
    assert_eq!(stage.scene.ended(&add).await["state"], "failed");
    assert_eq!(stage.member("farm-worker-1").await["state"], "failed");
    let refused = stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await;
    let refused = refused.refused(409, "incompatible");
    assert!(refused.text.contains("farm-worker-1"), "{}", refused.text);
    let adapter = Good::start(&stage);
    stage.scene.done(stage.order("remove", json!({"members": ["farm-worker-1"]})).await).await;
    stage.scene.done(stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await).await;
    adapter.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn member_drained_during_a_release_change_is_replaced_not_resumed() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(3).await;
    publish(&stage.scene, "2").await;
    let adapter = Good::start(&stage);
    stage.scene.done(stage.post("app-instances/farm/upgrade", json!({"app_version": "2"})).await).await;
    stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-1"]})).await).await;
    let back = stage.scene.done(stage.post("app-instances/farm/rollback", json!({})).await).await;
    let items: Vec<_> = back["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect();
    assert_eq!(items, ["farm-head-1", "farm-worker-2", "farm-worker-3"], "it is no part of it");
    assert_eq!(stage.member("farm-worker-1").await["state"], "drained");
    let refused = stage.order("resume", json!({"members": ["farm-worker-1"]})).await;
    let refused = refused.refused(409, "invalid_state");
    assert!(refused.text.contains("replace it"), "{}", refused.text);
    stage.scene.done(stage.order("replace", json!({"members": ["farm-worker-1"]})).await).await;
    adapter.stop().await;
    stage.stop().await;
}
