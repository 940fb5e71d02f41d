//! Health and repair where an operation does not succeed: a recovery that fails, an instance that failed or stops.

use jiff::SignedDuration;
use muster_ids::{Env, InstanceId, NodeId};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::health::{cell_dies, count_told, id, node_is_lost, service_ends};
use super::{Good, Stage};
use crate::cell::until;

/// Returns the recoveries of the head.
async fn recoveries(stage: &Stage) -> Vec<Value> {
    let project = stage.scene.fixture.id("train");
    let head = stage.member("farm-head-1").await["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/operations?project={project}&subject={head}&page_size=200");
    let items = stage.scene.admin.get(&path).await.ok().body["items"].as_array().unwrap().clone();
    items.into_iter().filter(|one| one["kind"] == "member.recover").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_fails_is_repeated_until_the_repair_budget_is_spent() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(1).await;
        stage.set_repair("automatic").await;
        cell_dies(&stage, "farm-head-1").await;
        stage.fail_joins(async || stage.get("app-instances/farm").await["state"] == "failed").await;
        let farm = stage.get("app-instances/farm").await;
        assert_eq!(farm["reason"], "repairs_exhausted", "{farm:#}");
        let head = stage.member("farm-head-1").await;
        assert_eq!(
            (&head["state"], &head["failure_reason"]),
            (&json!("failed"), &json!("adapter_failed")),
            "{head:#}"
        );
        let recoveries = recoveries(&stage).await;
        assert_eq!(recoveries.len(), 3, "the budget of the manifest: {recoveries:#?}");
        assert!(recoveries.iter().all(|one| one["state"] == "failed"), "{recoveries:#?}");
        assert_eq!(count_told(&stage, "instance.repair_suspended").await, 1);
        assert_eq!(count_told(&stage, "instance.repair_proposed").await, 1);
        assert_eq!(count_told(&stage, "instance.failed").await, 1);
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_a_person_cancelled_is_not_repeated() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    stage.set_repair("automatic").await;
    cell_dies(&stage, "farm-head-1").await;
    until("it is being recovered", async || !recoveries(&stage).await.is_empty()).await;
    let cancel = format!("/v1/operations/{}/cancel", recoveries(&stage).await[0]["id"].as_str().unwrap());
    stage.scene.admin.post(&cancel, json!({"reason": "a person looks"})).await.ok();
    let good = Good::start(&stage);
    until("it is cancelled", async || stage.member("farm-head-1").await["failure_reason"] == "cancelled")
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let recoveries = recoveries(&stage).await;
    assert_eq!(recoveries.len(), 1, "{recoveries:#?}");
    assert_eq!(stage.get("app-instances/farm").await["state"], "running");
    good.stop().await;
    stage.stop().await;
}

/// A recovery that no adapter took up says nothing of the member: silence spends no budget and leads to no failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_ended_in_silence_is_not_repeated() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    stage.set_repair("off").await;
    cell_dies(&stage, "farm-head-1").await;
    until("it is failed", async || stage.member("farm-head-1").await["state"] == "failed").await;
    let soon = Env::system().now() + SignedDuration::from_secs(3);
    stage.order("recover", json!({"members": ["farm-head-1"], "ready_until": soon})).await.ok();
    stage.set_repair("automatic").await;
    let head = async || stage.member("farm-head-1").await;
    until("its deadline has passed", async || head().await["failure_reason"] == "deadline_passed").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let recoveries = recoveries(&stage).await;
    assert_eq!(recoveries.len(), 1, "{recoveries:#?}");
    assert_eq!(stage.get("app-instances/farm").await["state"], "running");
    stage.stop().await;
}

/// Dates the last report of the adapter back. It does not reconcile this instance, so its silence means nothing.
async fn adapter_is_silent(stage: &Stage, instance: InstanceId) {
    let past = Env::system().now() - SignedDuration::from_secs(1);
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_assessed(instance, Some(past), Some(past)).await.unwrap();
    tx.commit().await.unwrap();
    until("it is assessed", async || {
        stage.scene.kit.store().instance_assessment(instance).await.unwrap().0.is_none()
    })
    .await;
    let member = stage.member("farm-worker-2").await;
    assert_eq!(member["health"], "healthy", "{member:#}");
    assert_eq!(count_told(stage, "instance.adapter_silent").await, 0);
}

/// An instance whose members have work keeps a true health after it failed, and while it stops.
#[tokio::test(flavor = "multi_thread")]
async fn the_health_of_members_is_true_in_a_failed_instance_and_in_one_that_stops() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(2).await;
        let instance: InstanceId = id(&stage.get("app-instances/farm").await["id"]);
        let now = Env::system().now();
        let mut tx = stage.scene.kit.store().begin().await.unwrap();
        tx.instance_repaired(instance, &[now, now, now], now).await.unwrap();
        tx.commit().await.unwrap();
        stage.set_repair("automatic").await;
        service_ends(&stage, &stage.member("farm-head-1").await, false);
        until("it is failed", async || stage.get("app-instances/farm").await["state"] == "failed").await;
        assert_eq!(stage.member("farm-worker-1").await["state"], "active");

        cell_dies(&stage, "farm-worker-1").await;
        until("the worker is failed", async || stage.member("farm-worker-1").await["state"] == "failed")
            .await;
        let worker = stage.member("farm-worker-1").await;
        assert_eq!(
            (&worker["failure_reason"], &worker["health"]),
            (&json!("cell_ended"), &json!("unhealthy")),
            "{worker:#}"
        );
        let farm = stage.get("app-instances/farm").await;
        assert_eq!(
            (&farm["state"], &farm["health"]),
            (&json!("failed"), &json!("unhealthy")),
            "no repair follows"
        );
        adapter_is_silent(&stage, instance).await;

        // No adapter leases the steps: the instance stops for as long as the test needs.
        stage.post("app-instances/farm/decommission", json!({"reason": "over"})).await.ok();
        until("it stops", async || stage.get("app-instances/farm").await["state"] == "stopping").await;
        until("it drains", async || stage.member("farm-worker-2").await["state"] == "draining").await;
        adapter_is_silent(&stage, instance).await;
        let node = id::<NodeId>(&stage.member("farm-worker-2").await["node_id"]);
        node_is_lost(&stage, "farm-worker-2").await;
        for at in 0..2 {
            stage.nodes.fleet.partition(at, false);
        }
        let mut tx = stage.scene.kit.store().begin().await.unwrap();
        tx.instances_assess_on(node, now - SignedDuration::from_secs(1)).await.unwrap();
        tx.commit().await.unwrap();
        let good = Good::start(&stage);
        until("it is stopped", async || stage.get("app-instances/farm").await["state"] == "stopped").await;
        good.stop().await;
        stage.stop().await;
    }
}
