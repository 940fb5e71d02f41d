//! Members after a reboot of their nodes: those of a component with `restart: always` are all recovered, within their own
//! budget; the others are subject to the repair policy.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Good, Stage, pool, publish_as};
use crate::cell::until;

/// Returns a release with workers that are restarted when their cells end, and a head that is not.
fn restarting() -> Value {
    let mut manifest = pool("2");
    manifest["components"][1]["restart"] = json!("always");
    manifest
}

async fn running(stage: &Stage, workers: i64) -> Good {
    publish_as(&stage.scene, "2", restarting()).await;
    let adapter = Good::start(stage);
    let body = json!({"name": "farm", "app": "pool", "app_version": "2",
                      "components": [{"component_key": "worker", "count": workers}]});
    stage.scene.done(stage.post("app-instances", body).await).await;
    adapter
}

async fn count(stage: &Stage, word: &str) -> usize {
    stage.scene.told().await.iter().filter(|told| *told == word).count()
}

async fn reboot(stage: &mut Stage) {
    for at in 0..2 {
        stage.nodes.fleet.reboot(at).await.unwrap();
    }
}

async fn is_back(stage: &Stage, name: &str, incarnation: i64) -> bool {
    let member = stage.member(name).await;
    member["state"] == "active" && member["incarnation"] == incarnation
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reboot_fails_members_and_restarts_those_whose_component_says_so() {
    for database in Database::both() {
        let mut stage = Stage::new(database).await;
        let adapter = running(&stage, 5).await;
        reboot(&mut stage).await;
        // More than the repair breaker would allow: a reboot ends many cells at once.
        for worker in 1..=5 {
            let name = format!("farm-worker-{worker}");
            until("each worker is back", async || is_back(&stage, &name, 2).await).await;
        }
        let head = stage.member("farm-head-1").await;
        assert_eq!((&head["state"], &head["failure_reason"]), (&json!("failed"), &json!("cell_ended")));
        assert!(head["health_message"].as_str().unwrap().contains("rebooted"), "{head:#}");
        let farm = stage.get("app-instances/farm").await;
        assert_eq!((&farm["state"], &farm["health"]), (&json!("running"), &json!("unhealthy")), "{farm:#}");
        assert_eq!(count(&stage, "member.failed").await, 6);
        assert_eq!(count(&stage, "member.added").await, 11, "six at first, and five again");
        let restarted = stage.member("farm-worker-1").await["last_operation_id"].as_str().unwrap().to_owned();
        let restarted = stage.scene.admin.get(&format!("/v1/operations/{restarted}")).await.ok().body;
        assert_eq!(
            (&restarted["kind"], &restarted["state"]),
            (&json!("member.recover"), &json!("succeeded"))
        );
        assert_eq!(restarted["actor_name"], "restart", "{restarted:#}");
        adapter.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_is_restarted_three_times_an_hour_and_then_repair_decides() {
    let mut stage = Stage::new(Database::sqlite()).await;
    let adapter = running(&stage, 1).await;
    for round in 2..=4 {
        reboot(&mut stage).await;
        until("it is restarted", async || is_back(&stage, "farm-worker-1", round).await).await;
    }
    let proposed = count(&stage, "instance.repair_proposed").await;
    reboot(&mut stage).await;
    until("its policy gives up", async || count(&stage, "member.restart_suspended").await == 1).await;
    until("a repair is proposed", async || count(&stage, "instance.repair_proposed").await > proposed).await;
    assert_eq!(stage.member("farm-worker-1").await["state"], "failed");
    assert_eq!(stage.get("app-instances/farm").await["state"], "running", "a person decides");
    adapter.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_member_is_not_restarted_nor_any_with_repair_off() {
    let mut stage = Stage::new(Database::sqlite()).await;
    let adapter = running(&stage, 3).await;
    stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-1"]})).await).await;
    reboot(&mut stage).await;
    until("the other is restarted", async || is_back(&stage, "farm-worker-2", 2).await).await;
    until("the drained one is failed", async || stage.member("farm-worker-1").await["state"] == "failed")
        .await;
    assert_eq!(stage.member("farm-worker-1").await["incarnation"], 1);
    stage.set_repair("off").await;
    reboot(&mut stage).await;
    until("nothing is done", async || stage.member("farm-worker-2").await["state"] == "failed").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(stage.member("farm-worker-2").await["incarnation"], 2);
    adapter.stop().await;
    stage.stop().await;
}
