//! Looks on schedule: what an adapter says of members, and what is left of a look.

use jiff::SignedDuration;
use muster_ids::{InstanceId, World};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::generation;
use crate::instance::Stage;

/// Has the instance be due, and leases the look.
async fn look(stage: &Stage) -> Value {
    let id: InstanceId = stage.get("app-instances/farm").await["id"].as_str().unwrap().parse().unwrap();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_suspect(id, World::system().now() - SignedDuration::from_secs(1)).await.unwrap();
    tx.commit().await.unwrap();
    let mut steps = stage.lease(10).await;
    assert_eq!(steps.len(), 1, "{steps:#?}");
    assert_eq!(steps[0]["step"]["verb"], "reconcile");
    steps.remove(0)
}

fn report(step: &Value, name: &str, health: &str) -> Value {
    let members = step["snapshot"]["members"].as_array().unwrap();
    let member = members.iter().find(|member| member["name"] == name).unwrap();
    json!({"member_id": member["id"], "incarnation": member["incarnation"], "health": health, "message": "seen"})
}

async fn rows(stage: &Stage) -> (usize, usize) {
    let steps = stage.get("adapter-steps?page_size=200").await;
    let looks = steps["items"].as_array().unwrap().iter().filter(|step| step["verb"] == "reconcile").count();
    (looks, stage.scene.told().await.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_finds_nothing_new_leaves_nothing() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(1).await;
        // The first look says what was not said before: the adapter's own words.
        let first = look(&stage).await;
        let members = json!({"members": [report(&first, "farm-head-1", "healthy"), report(&first, "farm-worker-1", "healthy")],
                             "reconcile_after_seconds": 3600});
        stage.say(&first, "complete", generation(&first), members).await.ok();
        let before = rows(&stage).await;
        for round in 0..3 {
            let step = look(&stage).await;
            let act = json!({"command": {"command": ["/bin/true"]}});
            let head = step["snapshot"]["members"][0]["id"].clone();
            let task = json!({"key": "look", "member_id": head, "act": act, "wait_seconds": 10});
            let task = stage.say(&step, "tasks", generation(&step), task).await.ok();
            assert_eq!(task.body["state"], "done", "{}", task.text);
            let same = json!({"members": [report(&step, "farm-head-1", "healthy"), report(&step, "farm-worker-1", "healthy")],
                              "reconcile_after_seconds": 3600});
            stage.say(&step, "complete", generation(&step), same).await.ok();
            assert_eq!(rows(&stage).await, before, "round {round} left something");
            let left =
                stage.scene.kit.store().task_lookup(task.text_of("id").parse().unwrap()).await.unwrap();
            assert!(left.is_none(), "its tasks are gone with it");
            assert!(stage.get("app-instances/farm").await["reconciled_at"].is_string());
        }
        assert!(stage.lease(0).await.is_empty(), "the next look is an hour away");
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_counts_for_the_incarnation_that_is_meant() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(3).await;
    let step = look(&stage).await;
    let mut old = report(&step, "farm-worker-1", "unhealthy");
    old["incarnation"] = json!(old["incarnation"].as_i64().unwrap() - 1);
    let said =
        json!({"members": [old, report(&step, "farm-worker-2", "unhealthy")], "topology_mode": "star"});
    stage.say(&step, "complete", generation(&step), said).await.ok();
    assert_eq!(stage.member("farm-worker-1").await["health"], "healthy", "that was said of one that is over");
    let sick = stage.member("farm-worker-2").await;
    assert_eq!((&sick["health"], &sick["health_message"]), (&json!("unhealthy"), &json!("seen")));
    let farm = stage.get("app-instances/farm").await;
    assert_eq!((&farm["health"], &farm["topology"]["mode"]), (&json!("degraded"), &json!("star")));
    // The mode of this app is to propose: once, and nothing is opened on an adapter's word.
    let told = stage.scene.told().await;
    let count = |word: &str| told.iter().filter(|said| *said == word).count();
    assert_eq!((count("member.health_changed"), count("instance.repair_proposed")), (1, 1));
    let step = look(&stage).await;
    let said = json!({"members": [report(&step, "farm-worker-2", "unhealthy")]});
    stage.say(&step, "complete", generation(&step), said).await.ok();
    let step = look(&stage).await;
    let said = json!({"members": [report(&step, "farm-worker-1", "unhealthy"), report(&step, "farm-worker-2", "healthy"),
                                  report(&step, "farm-worker-3", "unhealthy")]});
    stage.say(&step, "complete", generation(&step), said).await.ok();
    assert_eq!(stage.get("app-instances/farm").await["health"], "unhealthy", "one of three is no majority");
    let told = stage.scene.told().await;
    assert_eq!(told.iter().filter(|said| *said == "instance.repair_proposed").count(), 3);
    assert_eq!(stage.members().await.len(), 4);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn by_itself_one_member_is_replaced_at_a_time_until_the_breaker_opens() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(2).await;
    let admin = &stage.scene.admin;
    let request =
        admin.request(reqwest::Method::PATCH, &stage.at("app-instances/farm")).header("if-match", "*");
    admin.send(request.json(&json!({"repair": "automatic"}))).await.ok();
    let mut opened = 0;
    for round in 0..5 {
        let step = look(&stage).await;
        let sick: Vec<Value> = step["snapshot"]["members"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|member| member["component_key"] == "worker" && member["state"] == "active")
            .map(|member| report(&step, member["name"].as_str().unwrap(), "unhealthy"))
            .collect();
        stage.say(&step, "complete", generation(&step), json!({"members": sick})).await.ok();
        let path = format!("/v1/operations?project={}&page_size=200", stage.scene.fixture.id("train"));
        let operations = admin.get(&path).await.ok().body;
        let repairs: Vec<Value> = operations["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|operation| operation["kind"] == "member.replace")
            .cloned()
            .collect();
        assert!(repairs.iter().all(|repair| repair["actor_id"] == "platform"));
        assert!(repairs.len() <= opened + 1, "round {round} opened more than one");
        opened = repairs.len();
        let good = crate::instance::Good::start(&stage);
        for repair in repairs {
            let id = repair["id"].as_str().unwrap();
            let ended = admin.get(&format!("/v1/operations/{id}?wait_seconds=20")).await.ok().body;
            assert_eq!(ended["state"], "succeeded", "{ended:#}");
        }
        good.stop().await;
    }
    assert_eq!(opened, 3, "so many the manifest allows in an hour");
    let told = stage.scene.told().await;
    assert!(told.iter().any(|word| word == "instance.repair_suspended"), "{told:?}");
    stage.stop().await;
}
