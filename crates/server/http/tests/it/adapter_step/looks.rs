//! Scheduled reconciliation: an adapter's reports on members, and what remains of a reconciliation.

use jiff::SignedDuration;
use muster_db::CellReport;
use muster_ids::{Env, InstanceId};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::generation;
use crate::instance::Stage;

/// Makes a reconciliation of the instance due.
async fn suspect(stage: &Stage) {
    let id: InstanceId = stage.get("app-instances/farm").await["id"].as_str().unwrap().parse().unwrap();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_schedule_reconcile(id, Env::system().now() - SignedDuration::from_secs(1)).await.unwrap();
    tx.commit().await.unwrap();
}

/// Makes a reconciliation of the instance due, and leases it.
async fn look(stage: &Stage) -> Value {
    suspect(stage).await;
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
        // The first reconciliation adds the adapter's own details.
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
        // Commands run in the consumer's cells stay in its audit log, although the reconciliations are pruned.
        stage.scene.kit.sealed().await;
        let lines = stage
            .scene
            .kit
            .operator()
            .get("/v1/audit?tenant=acme&action=adapter_task.create&page_size=200")
            .await
            .ok();
        let ran: Vec<&Value> = lines.body["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| &line["record"])
            .filter(|record| record["detail"]["program"] == "/bin/true")
            .collect();
        assert_eq!(ran.len(), 3, "{}", lines.text);
        assert_eq!(
            (&ran[0]["target"]["kind"], &ran[0]["detail"]["kind"]),
            (&json!("member"), &json!("cell_command"))
        );
        assert_eq!(ran[0]["detail"]["act_sha256"].as_str().unwrap().len(), 64);
        assert_eq!(ran[0]["actor"]["kind"], "service_account");
        stage.stop().await;
    }
}

/// The adapter's snapshot is older than the suspicion.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspicion_during_a_look_has_another_look_as_soon_as_it_ends() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(1).await;
        let first = look(&stage).await;
        suspect(&stage).await;
        assert!(stage.lease(0).await.is_empty(), "an instance is looked at by one at a time");
        let said =
            json!({"members": [report(&first, "farm-head-1", "healthy")], "reconcile_after_seconds": 3600});
        stage.say(&first, "complete", generation(&first), said).await.ok();
        let again = stage.lease(10).await;
        assert_eq!(again.len(), 1, "{again:#?}");
        assert_eq!(again[0]["step"]["verb"], "reconcile");
        let said = json!({"reconcile_after_seconds": 3600});
        stage.say(&again[0], "complete", generation(&again[0]), said).await.ok();
        assert!(stage.lease(0).await.is_empty(), "and the next is an hour away");
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn report_counts_only_for_its_own_incarnation() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(3).await;
    let step = look(&stage).await;
    let mut old = report(&step, "farm-worker-1", "unhealthy");
    old["incarnation"] = json!(old["incarnation"].as_i64().unwrap() - 1);
    let mut unknown = report(&step, "farm-worker-1", "unhealthy");
    unknown["member_id"] = json!("mem_01h455vb4pex5vsknk084sn02q");
    let said = json!({"members": [old, unknown, report(&step, "farm-worker-2", "unhealthy")], "topology_mode": "star"});
    let taken = stage.say(&step, "complete", generation(&step), said).await.ok();
    let refused = taken.body["refused_reports"].as_array().unwrap();
    let reasons: Vec<&Value> = refused.iter().map(|refused| &refused["reason"]).collect();
    assert_eq!(reasons, ["stale_incarnation", "unknown_member"], "{}", taken.text);
    assert_eq!(stage.member("farm-worker-1").await["health"], "healthy", "that was said of one that is over");
    let sick = stage.member("farm-worker-2").await;
    assert_eq!((&sick["health"], &sick["health_message"]), (&json!("unhealthy"), &json!("seen")));
    let farm = stage.get("app-instances/farm").await;
    assert_eq!((&farm["health"], &farm["topology"]["mode"]), (&json!("degraded"), &json!("star")));
    // This app's repair mode is to propose: once, and an adapter's report alone opens no operation.
    let told = stage.scene.told().await;
    let count = |word: &str| told.iter().filter(|said| *said == word).count();
    assert_eq!(count("member.health_changed"), 1);
    // The report alone proves no dead cell, so the proposal is to replace the member, in words of the command line.
    let proposed = stage.scene.data_of("instance.repair_proposed").await;
    assert_eq!(proposed.len(), 1);
    assert_eq!(proposed[0]["advice"], "muster member replace farm farm-worker-2");
    assert_eq!((&proposed[0]["member_id"], &proposed[0]["message"]), (&sick["id"], &json!("seen")));
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

/// The completion of a reconcile takes the instance's lock and then reads the observations of agents: one that is committed
/// while it waits must count. Forced on PostgreSQL; SQLite has one writer.
#[tokio::test(flavor = "multi_thread")]
async fn an_observation_that_comes_while_a_look_waits_for_the_lock_counts() {
    let stage = Stage::new(Database::postgres()).await;
    stage.running(1).await;
    let step = look(&stage).await;
    let worker = stage.member("farm-worker-1").await;
    let dead = CellReport {
        cell_id: worker["cell_id"].as_str().unwrap().parse().unwrap(),
        incarnation: worker["incarnation"].as_i64().unwrap(),
        alive: false,
        services: json!([]),
        message: None,
        boot_id: "one".to_owned(),
    };
    let instance: InstanceId = step["step"]["instance_id"].as_str().unwrap().parse().unwrap();
    let node = worker["node_id"].as_str().unwrap().parse().unwrap();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    assert!(tx.instance_hold(instance).await.unwrap().is_some());
    let said =
        json!({"members": [report(&step, "farm-worker-1", "healthy")], "reconcile_after_seconds": 3600});
    let meanwhile = async {
        stage.scene.kit.database.until_a_session_waits_for_a_lock().await;
        assert!(tx.cell_observe(node, &dead, Env::system().now()).await.unwrap());
        tx.commit().await.unwrap();
    };
    let (completed, ()) = tokio::join!(stage.say(&step, "complete", generation(&step), said), meanwhile);
    completed.ok();
    let worker = stage.member("farm-worker-1").await;
    assert_eq!(
        (&worker["state"], &worker["health_reason"]),
        (&json!("failed"), &json!("cell_exited")),
        "the look used what it had read before it got the lock: {worker:#}"
    );
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
    let repairs = async || -> Vec<Value> {
        let path = format!("/v1/operations?project={}&page_size=200", stage.scene.fixture.id("train"));
        let operations = admin.get(&path).await.ok().body;
        let replaces = |operation: &&Value| operation["kind"] == "member.replace";
        operations["items"].as_array().unwrap().iter().filter(replaces).cloned().collect()
    };
    for _ in 0..5 {
        let step = look(&stage).await;
        let sick: Vec<Value> = step["snapshot"]["members"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|member| member["component_key"] == "worker" && member["state"] == "active")
            .map(|member| report(&step, member["name"].as_str().unwrap(), "unhealthy"))
            .collect();
        stage.say(&step, "complete", generation(&step), json!({"members": sick})).await.ok();
        // The adapter that assists from here on also reconciles, reports nothing new, and may replace the next one: it is
        // stopped only when no replacement is left, also none that began while it stopped.
        loop {
            let good = crate::instance::Good::start(&stage);
            crate::cell::until("what was opened is done", async || {
                let all = repairs().await;
                assert!(all.iter().all(|repair| repair["actor_id"] == "platform"));
                let open = all.iter().filter(|repair| repair["state"] != "succeeded").count();
                assert!(open <= 1, "two at once: {all:#?}");
                open == 0
            })
            .await;
            good.stop().await;
            if repairs().await.iter().all(|repair| repair["state"] == "succeeded") {
                break;
            }
        }
    }
    assert_eq!(repairs().await.len(), 3, "the manifest allows three in an hour");
    let told = stage.scene.told().await;
    assert!(told.iter().any(|word| word == "instance.repair_suspended"), "{told:?}");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_changes_nothing_beside_a_step_of_a_member() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(3).await;
        let step = look(&stage).await;
        let task = async |step: &Value, key: &str, effect: Value| {
            let head = step["snapshot"]["members"][0]["id"].clone();
            let act = json!({"files": {"write": [{"path": "/etc/mended", "text": key}]}});
            let mut body = json!({"key": key, "member_id": head, "act": act, "wait_seconds": 10});
            if !effect.is_null() {
                body["effect"] = effect;
            }
            stage.say(step, "tasks", generation(step), body).await
        };
        task(&step, "alone", Value::Null).await.ok();
        stage.order("drain", json!({"members": ["farm-worker-1"]})).await.ok();
        let drain = stage.lease(20).await.remove(0);
        assert_eq!(drain["step"]["verb"], "drain");
        let refused = task(&step, "beside", Value::Null).await.refused(409, "member_step_running");
        assert_eq!(refused.body["retryable"], true);
        task(&step, "beside", json!("changes")).await.refused(409, "member_step_running");
        // A repeated task returns the existing one; reads, and tasks declared safe, proceed.
        task(&step, "alone", Value::Null).await.ok();
        task(&step, "reads", json!("reads")).await.ok();
        task(&step, "safe", json!("concurrent")).await.ok();
        // The member's own step may change anything.
        task(&drain, "drains", Value::Null).await.ok();
        stage.say(&drain, "complete", generation(&drain), json!({})).await.ok();
        // The reconciliation's snapshot is older than the drain that just ended.
        task(&step, "late", Value::Null).await.refused(409, "member_step_running");
        stage.say(&step, "complete", generation(&step), json!({})).await.ok();
        crate::cell::until("the drain is over", async || {
            stage.member("farm-worker-1").await["state"] == "drained"
        })
        .await;
        let next = look(&stage).await;
        task(&next, "mends", Value::Null).await.ok();
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_breaks_during_the_last_repair_is_announced_after_it() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(2).await;
    let admin = &stage.scene.admin;
    let request =
        admin.request(reqwest::Method::PATCH, &stage.at("app-instances/farm")).header("if-match", "*");
    admin.send(request.json(&json!({"repair": "automatic"}))).await.ok();
    // All but one of the repairs that the manifest allows per hour are used.
    let id: InstanceId = stage.get("app-instances/farm").await["id"].as_str().unwrap().parse().unwrap();
    let now = Env::system().now();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_repaired(id, &[now, now], now).await.unwrap();
    tx.commit().await.unwrap();
    let first = look(&stage).await;
    let sick = json!({"members": [report(&first, "farm-worker-1", "unhealthy")]});
    stage.say(&first, "complete", generation(&first), sick).await.ok();
    // The second reconciliation ends while the repair runs; the repair's own steps wait for an adapter meanwhile.
    suspect(&stage).await;
    let mut others = Vec::new();
    let second = loop {
        let mut steps = stage.lease(10).await;
        match steps.iter().position(|step| step["step"]["verb"] == "reconcile") {
            Some(found) => break (steps.swap_remove(found), others.append(&mut steps)).0,
            None => others.append(&mut steps),
        }
    };
    let sick = json!({"members": [report(&second, "farm-worker-2", "unhealthy")]});
    stage.say(&second, "complete", generation(&second), sick).await.ok();
    assert!(!stage.scene.told().await.iter().any(|word| word == "instance.repair_suspended"));
    for step in &others {
        stage.say(step, "complete", generation(step), json!({})).await.ok();
    }
    let good = crate::instance::Good::start(&stage);
    crate::cell::until("the suspension is announced", async || {
        stage.scene.told().await.iter().any(|word| word == "instance.repair_suspended")
    })
    .await;
    good.stop().await;
    let told = stage.scene.told().await;
    assert_eq!(told.iter().filter(|word| *word == "instance.repair_suspended").count(), 1, "{told:?}");
    stage.stop().await;
}
