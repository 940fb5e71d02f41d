//! Health expires: reports from an agent, the loss watch or an adapter change it, and so does their absence.

use jiff::SignedDuration;
use muster_agent_sim::Odds;
use muster_db::{CellReport, Lease};
use muster_ids::{CellId, Env, InstanceId, NodeId};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Good, Stage, pool, publish_as};
use crate::cell::{Scene, until};

pub(super) fn id<T: std::str::FromStr>(value: &Value) -> T
where
    T::Err: std::fmt::Debug,
{
    value.as_str().unwrap().parse().unwrap()
}

/// Kills the first process of a member's cell on its node; the node's agent reports it.
pub(super) async fn cell_dies(stage: &Stage, name: &str) {
    let cell = id::<CellId>(&stage.member(name).await["cell_id"]);
    let end = |at| stage.nodes.fleet.kill_cell(at, cell).unwrap();
    assert!(end(0) || end(1), "one of the nodes has it");
}

/// Ends the service of a member's cell on its node: for good, or to be restarted by its supervisor.
pub(super) fn service_ends(stage: &Stage, member: &Value, restarted: bool) {
    let (cell, fleet) = (id::<CellId>(&member["cell_id"]), &stage.nodes.fleet);
    let mut struck = false;
    for at in 0..2 {
        struck |= match restarted {
            true => fleet.crash_services(at, cell, None).unwrap(),
            false => fleet.end_services(at, cell, None).unwrap(),
        };
    }
    assert!(struck, "one of the nodes has it");
}

async fn metric(stage: &Stage, name: &str) -> i64 {
    let text = stage.scene.kit.operator().get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

pub(super) async fn count_told(stage: &Stage, word: &str) -> usize {
    stage.scene.told().await.iter().filter(|told| *told == word).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_cell_fails_its_member_and_recover_brings_it_back() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(2).await;
        cell_dies(&stage, "farm-head-1").await;
        until("the member is failed", async || stage.member("farm-head-1").await["state"] == "failed").await;
        let head = stage.member("farm-head-1").await;
        assert_eq!((&head["failure_reason"], &head["health"]), (&json!("cell_ended"), &json!("unhealthy")));
        assert_eq!(head["health_reason"], "cell_exited", "{head:#}");
        assert!(head["health_since"].is_string());
        let farm = stage.get("app-instances/farm").await;
        assert_eq!((&farm["state"], &farm["health"]), (&json!("running"), &json!("unhealthy")));
        assert!(farm["health_message"].as_str().unwrap().contains("farm-head-1"), "{farm:#}");
        assert_eq!(count_told(&stage, "member.failed").await, 1);
        assert_eq!(count_told(&stage, "instance.health_changed").await, 1);
        // This app's repair mode is to propose, and a proposal leaves the member unchanged.
        let proposed = stage.scene.data_of("instance.repair_proposed").await;
        assert_eq!(proposed.len(), 1);
        assert_eq!(proposed[0]["advice"], "muster member recover farm farm-head-1");
        assert_eq!((&proposed[0]["name"], &proposed[0]["member"]), (&json!("farm"), &head["name"]));
        assert_eq!(
            (&proposed[0]["member_id"], &proposed[0]["incarnation"]),
            (&head["id"], &head["incarnation"])
        );
        assert_eq!(proposed[0]["message"], head["health_message"], "{head:#}");

        let healthy = count_told(&stage, "instance.healthy").await;
        let good = Good::start(&stage);
        let started = stage.order("recover", json!({"members": ["farm-head-1"]})).await;
        stage.scene.done(started).await;
        until("it is healthy again", async || stage.get("app-instances/farm").await["health"] == "healthy")
            .await;
        assert_eq!(count_told(&stage, "instance.healthy").await, healthy + 1);
        assert_eq!(stage.member("farm-head-1").await["state"], "active");
        good.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_on_another_incarnation_or_node_changes_nothing() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    let (head, worker) = (stage.member("farm-head-1").await, stage.member("farm-worker-1").await);
    let report = |incarnation: i64| CellReport {
        cell_id: id::<CellId>(&head["cell_id"]),
        incarnation,
        alive: false,
        services: json!([]),
        message: None,
        boot_id: "one".to_owned(),
    };
    let now = Env::system().now();
    let own = head["incarnation"].as_i64().unwrap();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    let at = id::<NodeId>(&head["node_id"]);
    assert!(!tx.cell_observe(at, &report(own + 1), now).await.unwrap());
    assert!(!tx.cell_observe(at, &report(own - 1), now).await.unwrap());
    let elsewhere = Env::system().id::<NodeId>();
    assert!(!tx.cell_observe(elsewhere, &report(own), now).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(stage.member("farm-head-1").await["state"], "active");
    assert_eq!(worker["state"], "active");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_adapter_makes_health_unknown_and_never_failed() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    let instance: InstanceId = id(&stage.get("app-instances/farm").await["id"]);
    let past = Env::system().now() - SignedDuration::from_secs(1);
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_assessed(instance, Some(past), Some(past)).await.unwrap();
    tx.commit().await.unwrap();
    until("its health is unknown", async || stage.get("app-instances/farm").await["health"] == "unknown")
        .await;
    let head = stage.member("farm-head-1").await;
    assert_eq!((&head["state"], &head["health_reason"]), (&json!("active"), &json!("adapter_silent")));
    assert_eq!(count_told(&stage, "member.failed").await, 0, "silence proves nothing");
    assert_eq!(count_told(&stage, "instance.adapter_silent").await, 1, "once, for the instance");
    assert_eq!(count_told(&stage, "instance.repair_proposed").await, 0);
    // The adapter is back, and its next reconciliation confirms everything.
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_schedule_reconcile(instance, past).await.unwrap();
    tx.commit().await.unwrap();
    let good = Good::start(&stage);
    until("it is healthy again", async || stage.get("app-instances/farm").await["health"] == "healthy").await;
    good.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_ends_shows_and_has_its_time_to_restart() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    let worker = stage.member("farm-worker-1").await;
    let now = Env::system().now();
    let node = id::<NodeId>(&worker["node_id"]);
    let observed = async |state: &str, ready: bool| {
        let services = json!([{"name": "main", "state": state, "ready": ready, "restarts": 1}]);
        let report = CellReport {
            cell_id: id::<CellId>(&worker["cell_id"]),
            incarnation: worker["incarnation"].as_i64().unwrap(),
            alive: true,
            services,
            message: None,
            boot_id: "one".to_owned(),
        };
        let mut tx = stage.scene.kit.store().begin().await.unwrap();
        assert!(tx.cell_observe(node, &report, Env::system().now()).await.unwrap());
        tx.instances_assess_on(node, now).await.unwrap();
        tx.commit().await.unwrap();
    };
    observed("restarting", false).await;
    until("it shows", async || stage.member("farm-worker-1").await["health_reason"] == "service_restarting")
        .await;
    assert_eq!(stage.member("farm-worker-1").await["state"], "active");
    assert_eq!(count_told(&stage, "instance.repair_proposed").await, 0, "a restart is no reason to repair");
    observed("running", true).await;
    until("it is well again", async || stage.member("farm-worker-1").await["health"] == "healthy").await;
    observed("ended", false).await;
    until("it is proposed", async || count_told(&stage, "instance.repair_proposed").await == 1).await;
    assert_eq!(stage.member("farm-worker-1").await["health_reason"], "service_failed");
    let cell = stage.get(&format!("cells/{}", worker["cell_id"].as_str().unwrap())).await;
    assert_eq!(
        (&cell["health"], &cell["status"]["services"][0]["state"]),
        (&json!("unhealthy"), &json!("ended"))
    );
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_fails_only_when_its_repair_budget_is_spent() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    stage.set_repair("automatic").await;
    let good = Good::start(&stage);
    for round in 1..=3_i64 {
        cell_dies(&stage, "farm-head-1").await;
        until("it is recovered in its place", async || {
            let head = stage.member("farm-head-1").await;
            head["state"] == "active" && head["incarnation"].as_i64().unwrap() > round
        })
        .await;
        assert_eq!(stage.get("app-instances/farm").await["state"], "running");
        assert_eq!(stage.members().await.len(), 2, "nobody took its place");
    }
    cell_dies(&stage, "farm-head-1").await;
    until("it is failed", async || stage.get("app-instances/farm").await["state"] == "failed").await;
    let farm = stage.get("app-instances/farm").await;
    assert_eq!(farm["reason"], "repairs_exhausted", "{farm:#}");
    assert_eq!(count_told(&stage, "instance.failed").await, 1);
    assert_eq!(count_told(&stage, "instance.repair_suspended").await, 1);
    good.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loop_that_is_up_at_each_look_is_shown_and_degrades() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(1).await;
        let worker = stage.member("farm-worker-1").await;
        let restarts = async || stage.member("farm-worker-1").await["services"][0]["restarts"].as_i64();
        for _ in 0..2 {
            service_ends(&stage, &worker, true);
        }
        until("two restarts are counted", async || restarts().await == Some(2)).await;
        assert_eq!(stage.member("farm-worker-1").await["health"], "healthy");
        assert_eq!(count_told(&stage, "member.crash_loop_detected").await, 0);
        service_ends(&stage, &worker, true);
        until("it shows", async || stage.member("farm-worker-1").await["health"] == "degraded").await;
        let looping = stage.member("farm-worker-1").await;
        assert_eq!((&looping["state"], &looping["health_reason"]), (&json!("active"), &json!("crash_loop")));
        assert_eq!(looping["services"][0]["restarts"], 3, "{looping:#}");
        let farm = stage.get("app-instances/farm").await;
        assert_eq!((&farm["state"], &farm["health"]), (&json!("running"), &json!("degraded")), "{farm:#}");
        let cell = stage.get(&format!("cells/{}", worker["cell_id"].as_str().unwrap())).await;
        assert_eq!(
            (&cell["health"], &cell["status"]["services"][0]["restarts"]),
            (&json!("degraded"), &json!(3))
        );
        service_ends(&stage, &worker, true);
        until("the fourth is counted", async || restarts().await == Some(4)).await;
        assert_eq!(count_told(&stage, "member.crash_loop_detected").await, 1, "once for a loop");
        stage.stop().await;
    }
}

/// Neither missing reports from all sources at once nor a spent budget makes an instance or a member fail.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_fails_by_silence_also_when_no_repair_is_left() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(2).await;
        stage.set_repair("automatic").await;
        let instance: InstanceId = id(&stage.get("app-instances/farm").await["id"]);
        let now = Env::system().now();
        let store = stage.scene.kit.store();
        let mut tx = store.begin().await.unwrap();
        // The budget is spent: a member found broken now would not be repaired any more.
        tx.instance_repaired(instance, &[now, now, now], now).await.unwrap();
        tx.commit().await.unwrap();
        for at in 0..2 {
            stage.nodes.fleet.partition(at, true);
        }
        let mut tx = store.begin().await.unwrap();
        for member in stage.members().await {
            tx.node_lost(id::<NodeId>(&member["node_id"]), now).await.unwrap();
        }
        let past = now - SignedDuration::from_hours(1);
        tx.instance_assessed(instance, Some(past), Some(past)).await.unwrap();
        tx.commit().await.unwrap();
        until("nothing is known", async || stage.get("app-instances/farm").await["health"] == "unknown")
            .await;
        assert_eq!(metric(&stage, "muster_adapters_silent").await, 1);
        for _ in 0..3 {
            // A new assessment gives the same result.
            let mut tx = store.begin().await.unwrap();
            tx.instance_assessed(instance, Some(past), Some(past)).await.unwrap();
            tx.commit().await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(1200)).await;
        }
        let farm = stage.get("app-instances/farm").await;
        assert_eq!((&farm["state"], &farm["health"]), (&json!("running"), &json!("unknown")), "{farm:#}");
        for member in stage.members().await {
            assert_eq!(
                (&member["state"], &member["health"]),
                (&json!("active"), &json!("unknown")),
                "{member:#}"
            );
            assert_eq!(member["health_reason"], "node_unreachable");
            assert!(member["health_since"].is_string());
        }
        for word in ["instance.failed", "member.failed", "instance.repair_suspended"] {
            assert_eq!(count_told(&stage, word).await, 0, "{word}");
        }
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_being_recovered_does_not_count_as_lost_for_good() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    cell_dies(&stage, "farm-head-1").await;
    until("the member is failed", async || stage.member("farm-head-1").await["state"] == "failed").await;
    // No adapter leases the recovery's steps, so it runs as long as the test needs.
    stage.order("recover", json!({"members": ["farm-head-1"]})).await.ok();
    let instance: InstanceId = id(&stage.get("app-instances/farm").await["id"]);
    let now = Env::system().now();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_repaired(instance, &[now, now, now], now).await.unwrap();
    tx.commit().await.unwrap();
    stage.set_repair("automatic").await;
    cell_dies(&stage, "farm-worker-1").await;
    until("the worker is failed", async || stage.member("farm-worker-1").await["state"] == "failed").await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(stage.get("app-instances/farm").await["state"], "running", "its head is being recovered");
    let good = Good::start(&stage);
    until("it is back", async || stage.member("farm-head-1").await["state"] == "active").await;
    assert_eq!(stage.get("app-instances/farm").await["state"], "running");
    good.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unhealthy_member_fails_with_its_instance_and_says_so() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    let instance: InstanceId = id(&stage.get("app-instances/farm").await["id"]);
    let now = Env::system().now();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    tx.instance_repaired(instance, &[now, now, now], now).await.unwrap();
    tx.commit().await.unwrap();
    stage.set_repair("automatic").await;
    let head = stage.member("farm-head-1").await;
    service_ends(&stage, &head, false);
    until("it is failed", async || stage.get("app-instances/farm").await["state"] == "failed").await;
    let head = stage.member("farm-head-1").await;
    assert_eq!(
        (&head["state"], &head["failure_reason"]),
        (&json!("failed"), &json!("unhealthy")),
        "{head:#}"
    );
    assert_eq!(stage.member("farm-worker-1").await["state"], "active", "nothing is wrong with it");
    assert_eq!(count_told(&stage, "member.failed").await, 1);
    assert_eq!(count_told(&stage, "instance.failed").await, 1);
    let good = Good::start(&stage);
    stage.scene.done(stage.post("app-instances/farm/decommission", json!({"reason": "over"})).await).await;
    good.stop().await;
    stage.stop().await;
}

/// Takes a node away, as the loss watch does, and waits until a member's health is unknown by that.
pub(super) async fn node_is_lost(stage: &Stage, name: &str) {
    let member = stage.member(name).await;
    for at in 0..2 {
        stage.nodes.fleet.partition(at, true);
    }
    let now = Env::system().now();
    let mut tx = stage.scene.kit.store().begin().await.unwrap();
    let node = id::<NodeId>(&member["node_id"]);
    tx.node_lost(node, now).await.unwrap();
    tx.instances_assess_on(node, now).await.unwrap();
    tx.commit().await.unwrap();
    until("its health is unknown", async || stage.member(name).await["health"] == "unknown").await;
    let after = stage.member(name).await;
    assert_eq!(after["health_reason"], "node_unreachable", "{after:#}");
    assert!(after["health_since"].is_string(), "{after:#}");
    assert_eq!(after["state"], member["state"], "silence changes no state");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_out_of_work_on_an_unreachable_node_is_unknown_until_the_node_is_back() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(3).await;
        let good = Good::start(&stage);
        stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-2"]})).await).await;
        good.stop().await;
        let drained = stage.member("farm-worker-2").await;
        assert_eq!((&drained["state"], &drained["health"]), (&json!("drained"), &json!("healthy")));
        node_is_lost(&stage, "farm-worker-2").await;
        for at in 0..2 {
            stage.nodes.fleet.partition(at, false);
        }
        until("it is healthy", async || stage.member("farm-worker-2").await["health"] == "healthy").await;
        assert_eq!(stage.member("farm-worker-2").await["state"], "drained");

        // No adapter takes the drain up, so that it goes on for as long as the test wants.
        stage.order("resume", json!({"members": ["farm-worker-2"]})).await.ok();
        let good = Good::start(&stage);
        until("it is active", async || stage.member("farm-worker-2").await["state"] == "active").await;
        good.stop().await;
        stage.order("drain", json!({"members": ["farm-worker-2"]})).await.ok();
        until("it is draining", async || stage.member("farm-worker-2").await["state"] == "draining").await;
        node_is_lost(&stage, "farm-worker-2").await;
        stage.stop().await;
    }
}

/// A drained member does not count for its instance, and its own health is true nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_member_with_a_broken_service_is_unhealthy_and_one_with_a_dead_cell_fails() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(5).await;
        let good = Good::start(&stage);
        stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-2"]})).await).await;
        good.stop().await;
        let worker = async || stage.member("farm-worker-2").await;
        let instance = async || stage.get("app-instances/farm").await["health"].clone();
        let before = instance().await;
        service_ends(&stage, &worker().await, false);
        until("it is unhealthy", async || worker().await["health"] == "unhealthy").await;
        let broken = worker().await;
        assert_eq!(
            (&broken["state"], &broken["health_reason"]),
            (&json!("drained"), &json!("service_failed"))
        );
        assert_eq!(instance().await, before, "it has no work");
        assert_eq!(count_told(&stage, "instance.repair_proposed").await, 0, "its owner drained it");
        cell_dies(&stage, "farm-worker-2").await;
        until("it is failed", async || worker().await["state"] == "failed").await;
        // A drain that no adapter takes up.
        stage.order("drain", json!({"members": ["farm-worker-1"]})).await.ok();
        until("it is draining", async || stage.member("farm-worker-1").await["state"] == "draining").await;
        let draining = stage.member("farm-worker-1").await;
        service_ends(&stage, &draining, false);
        until("it is unhealthy", async || stage.member("farm-worker-1").await["health"] == "unhealthy").await;
        assert_eq!(stage.member("farm-worker-1").await["state"], "draining");
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_being_removed_is_unknown_while_its_node_is_silent() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(3).await;
        let good = Good::start(&stage);
        stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-1"]})).await).await;
        good.stop().await;
        // No adapter takes the removal up, so that it goes on for as long as the test needs.
        stage.order("remove", json!({"members": ["farm-worker-1"]})).await.ok();
        let worker = async || stage.member("farm-worker-1").await;
        until("it is being removed", async || worker().await["state"] == "removing").await;
        assert_eq!(worker().await["health"], "healthy");
        node_is_lost(&stage, "farm-worker-1").await;
        for at in 0..2 {
            stage.nodes.fleet.partition(at, false);
        }
        until("it is healthy", async || worker().await["health"] == "healthy").await;
        // It is removed in any case, so the end of its cell is no failure, also not after a silence.
        node_is_lost(&stage, "farm-worker-1").await;
        cell_dies(&stage, "farm-worker-1").await;
        for at in 0..2 {
            stage.nodes.fleet.partition(at, false);
        }
        until("it is unhealthy", async || worker().await["health"] == "unhealthy").await;
        assert_eq!(
            (&worker().await["state"], count_told(&stage, "member.failed").await),
            (&json!("removing"), 0)
        );
        let good = Good::start(&stage);
        until("it is removed", async || worker().await["state"] == "removed").await;
        good.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_stops_without_an_active_member_is_not_healthy() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(0).await;
        let farm = async || stage.get("app-instances/farm").await;
        let down = stage.post("app-instances/farm/decommission", json!({"reason": "over"})).await.ok();
        // Completes the drains and gives all other steps back, so that its only member is neither active nor removed.
        let is_active = async || stage.members().await.iter().any(|member| member["state"] == "active");
        until("no member is active", async || {
            for step in stage.lease(0).await {
                let generation = step["step"]["generation"].as_i64().unwrap();
                let later = json!({"reason": "busy", "message": "not yet", "retry_after_seconds": 1});
                match step["step"]["verb"].as_str() {
                    Some("drain") => {
                        stage.say(&step, "complete", generation, json!({"message": "done"})).await
                    }
                    _ => stage.say(&step, "fail", generation, later).await,
                };
            }
            !is_active().await
        })
        .await;
        until("its health is unknown", async || farm().await["health"] == "unknown").await;
        let left = farm().await;
        assert_eq!(left["state"], "stopping", "{left:#}");
        assert!(left["health_message"].as_str().unwrap().contains("active"), "{left:#}");
        let good = Good::start(&stage);
        stage.scene.done(down).await;
        good.stop().await;
        assert_ne!(farm().await["health"], "healthy");
        stage.stop().await;
    }
}

/// A node that polls and never once confirmed the status of its cells: its members are not healthy by that.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_on_a_node_that_never_confirms_its_cells_becomes_unknown() {
    for database in Database::both() {
        let scene = Scene::with(database, 1, &[("nodes.heartbeat_seconds", "2")]).await;
        let stage = Stage::with(scene, Odds { unobservable: true, ..Odds::default() }).await;
        stage.running(1).await;
        let health_reason = async || stage.member("farm-worker-1").await["health_reason"].clone();
        until("its status is unconfirmed", async || health_reason().await == "unconfirmed").await;
        let worker = stage.member("farm-worker-1").await;
        assert_eq!(
            (&worker["state"], &worker["health"]),
            (&json!("active"), &json!("unknown")),
            "{worker:#}"
        );
        assert!(worker["health_since"].is_string(), "{worker:#}");
        assert!(worker["health_message"].as_str().unwrap().contains("not confirmed"), "{worker:#}");
        until("its instance is unknown", async || {
            stage.get("app-instances/farm").await["health"] == "unknown"
        })
        .await;
        assert_eq!(count_told(&stage, "member.failed").await, 0, "silence proves nothing");
        // The change of its health is no reason to believe in it again.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        assert_eq!(health_reason().await, "unconfirmed");
        for at in 0..2 {
            stage.nodes.fleet.set_unobservable(at, false);
        }
        until("it is healthy", async || stage.get("app-instances/farm").await["health"] == "healthy").await;
        stage.stop().await;
    }
}

/// Takes the lease of the loss detection from its replica, as another one does.
async fn take_loss_lease(stage: &Stage) -> Lease {
    let store = stage.scene.kit.store();
    store
        .sabotage("UPDATE leases SET generation = generation + 1, expires_at = 0 WHERE name = 'loss'")
        .await
        .unwrap();
    let lease =
        store.lease_acquire("loss", "another", SignedDuration::from_hours(1), Env::system().now()).await;
    lease.unwrap().expect("it is free")
}

/// After an outage, nodes confirm their cells again before any replica watches them.
#[tokio::test(flavor = "multi_thread")]
async fn an_unconfirmed_member_is_reviewed_without_the_loss_detection() {
    let scene = Scene::with(Database::sqlite(), 1, &[("nodes.heartbeat_seconds", "1")]).await;
    let stage = Stage::with(scene, Odds::default()).await;
    stage.running(1).await;
    take_loss_lease(&stage).await;
    // Its agent has reported every cell before, so that it only confirms afterwards.
    for at in 0..2 {
        stage.nodes.fleet.set_unobservable(at, true);
    }
    let health_reason = async || stage.member("farm-worker-1").await["health_reason"].clone();
    let instance: InstanceId = id(&stage.get("app-instances/farm").await["id"]);
    until("its status is unconfirmed", async || {
        let mut tx = stage.scene.kit.store().begin().await.unwrap();
        tx.instance_assessed(instance, Some(Env::system().now()), None).await.unwrap();
        tx.commit().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        health_reason().await == "unconfirmed"
    })
    .await;
    // Longer than the watch looks back: the change of its health starts no further assessment.
    tokio::time::sleep(std::time::Duration::from_secs(7)).await;
    for at in 0..2 {
        stage.nodes.fleet.set_unobservable(at, false);
    }
    until("it is healthy", async || stage.member("farm-worker-1").await["health"] == "healthy").await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_to_detect_losses_reviews_what_another_left_unconfirmed() {
    let scene = Scene::with(Database::sqlite(), 1, &[("nodes.heartbeat_seconds", "2")]).await;
    let stage = Stage::with(scene, Odds::default()).await;
    stage.running(1).await;
    let lease = take_loss_lease(&stage).await;
    // As an earlier release left it: unconfirmed, with no review due.
    let store = stage.scene.kit.store();
    store
        .sabotage("UPDATE members SET health = 'unknown', health_reason = 'unconfirmed', updated_at = 0")
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let worker = async || stage.member("farm-worker-1").await["health"].clone();
    assert_eq!(worker().await, "unknown", "nothing else reviews it");
    store.lease_end(&lease).await.unwrap();
    until("it is healthy", async || worker().await == "healthy").await;
    stage.stop().await;
}

/// The hello of an agent that lost the records of its cells does not list them.
#[tokio::test(flavor = "multi_thread")]
async fn a_hello_that_does_not_list_a_running_cell_makes_its_member_not_healthy() {
    for is_settled in [false, true] {
        let scene = Scene::with(Database::sqlite(), 1, &[("nodes.heartbeat_seconds", "1")]).await;
        let mut stage = Stage::with(scene, Odds::default()).await;
        stage.running(1).await;
        // The report of the agent that still had them.
        until("it is reported", async || {
            stage.member("farm-worker-1").await["services"][0]["state"] == "running"
        })
        .await;
        if is_settled {
            // It did not start while the agent made its list.
            stage.scene.kit.store().sabotage("UPDATE cells SET updated_at = 0").await.unwrap();
        }
        for at in 0..2 {
            stage.nodes.forget_cells(at).await;
        }
        let since = std::time::Instant::now();
        let worker = async || stage.member("farm-worker-1").await;
        until("it is not healthy", async || worker().await["health"] != "healthy").await;
        // Two times three heartbeats, and the watch's own second.
        assert!(since.elapsed() < std::time::Duration::from_secs(9), "{:?}", since.elapsed());
        let (worker, reason) = (worker().await, if is_settled { "cell_exited" } else { "unconfirmed" });
        assert_eq!(worker["health_reason"], reason, "{worker:#}");
        stage.stop().await;
    }
}

/// An app without an adapter is looked at for as long as it runs, by the agent of its node.
#[tokio::test(flavor = "multi_thread")]
async fn a_launchable_app_is_probed_for_as_long_as_it_runs() {
    let stage = Stage::new(Database::sqlite()).await;
    let mut manifest = pool("3");
    manifest["artifact_kind"] = json!("launchable");
    manifest["components"].as_array_mut().unwrap().truncate(1);
    publish_as(&stage.scene, "3", manifest).await;
    let body = json!({"name": "farm", "app": "pool", "app_version": "3"});
    stage.scene.done(stage.post("app-instances", body).await).await;
    let head = stage.member("farm-head-1").await;
    service_ends(&stage, &head, false);
    let since = std::time::Instant::now();
    until("it shows", async || stage.get("app-instances/farm").await["health"] == "unhealthy").await;
    assert!(since.elapsed() < std::time::Duration::from_secs(5), "{:?}", since.elapsed());
    let head = stage.member("farm-head-1").await;
    assert_eq!(
        (&head["health_reason"], &head["services"][0]["ready"]),
        (&json!("service_failed"), &json!(false))
    );
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_member_is_an_event() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(2).await;
    assert_eq!(count_told(&stage, "member.added").await, 3);
    assert_eq!(count_told(&stage, "member.removed").await, 0);
    let good = Good::start(&stage);
    stage.scene.done(stage.order("remove", json!({"members": ["farm-worker-2"]})).await).await;
    assert_eq!(count_told(&stage, "member.drained").await, 1);
    assert_eq!(count_told(&stage, "member.removed").await, 1);
    assert_eq!(count_told(&stage, "member.failed").await, 0);
    cell_dies(&stage, "farm-worker-1").await;
    until("it is told", async || count_told(&stage, "member.failed").await == 1).await;
    good.stop().await;
    stage.stop().await;
}
