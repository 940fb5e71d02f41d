//! Fencing of steps: which holder may report on a step, and until when.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use muster_db::StoreError;
use muster_ids::Env;
use muster_model::task::{Task, TaskState};
use muster_testkit::Database;
use serde_json::{Value, json};

use super::{generation, joining};
use crate::instance::{Stage, entitle, wish};

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_leased_with_everything_and_ended_once() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        let step = joining(&stage).await;
        assert_eq!((&step["step"]["verb"], &step["step"]["state"]), (&json!("join"), &json!("leased")));
        let snapshot = &step["snapshot"];
        assert_eq!(
            (&snapshot["instance"], &snapshot["app"], &snapshot["app_version"]),
            (&json!("farm"), &json!("pool"), &json!("1"))
        );
        let head = &snapshot["members"][0];
        assert_eq!(
            (&head["name"], &head["state"], &head["memory_mb"]),
            (&json!("farm-head-1"), &json!("joining"), &json!(256))
        );
        assert!(
            head["address"].as_str().unwrap().starts_with("10.") && head["unreachable"] == json!(false),
            "{head:#}"
        );
        let held = generation(&step);
        let kept = stage.say(&step, "heartbeat", held, json!({"lease_seconds": 60})).await.ok();
        assert!(kept.text_of("leased_until").as_str() > step["step"]["leased_until"].as_str().unwrap());
        let far = json!({"percent": 40, "message": "half way", "adapter_detail": {"role": "head"}});
        let said = stage.say(&step, "progress", held, far).await.ok();
        assert_eq!((&said.body["percent"], &said.body["message"]), (&json!(40), &json!("half way")));
        assert_eq!(
            said.text_of("leased_until"),
            kept.text_of("leased_until"),
            "a word never shortens a lease"
        );
        assert_eq!(stage.member("farm-head-1").await["adapter_detail"]["role"], "head");
        let listed = stage.get("adapter-steps?state=leased&instance=farm").await;
        assert_eq!(listed["items"][0]["holder"], "test");
        let id = step["step"]["id"].as_str().unwrap();
        assert_eq!(stage.get(&format!("adapter-steps/{id}")).await["snapshot"]["instance"], "farm");
        assert_eq!(stage.get("adapters").await["items"][0]["name"], "test");

        for wrong in [held - 1, held + 1] {
            for verb in ["heartbeat", "progress", "complete"] {
                stage.say(&step, verb, wrong, json!({})).await.refused(409, "fenced");
            }
            let failed = json!({"reason": "broken", "message": "no"});
            stage.say(&step, "fail", wrong, failed).await.refused(409, "fenced");
        }
        let members = json!({"members": []});
        stage.say(&step, "complete", held, members).await.refused(400, "invalid_request");
        stage.say(&step, "complete", held, json!({"message": "done"})).await.ok();
        // A retry after a lost response gets the same response.
        stage.say(&step, "complete", held, json!({"message": "done"})).await.ok();
        stage.say(&step, "heartbeat", held, json!({})).await.refused(409, "fenced");
        let told = stage.scene.told().await;
        assert_eq!(told.iter().filter(|word| *word == "adapter_step.leased").count(), 1);
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_lapsed_is_offered_again_and_its_old_holder_is_fenced() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.post("app-instances", json!({"name": "farm", "app": "pool", "app_version": "1"})).await.ok();
        let mut short = wish(20);
        short["lease_seconds"] = json!(5);
        let path = stage.at("adapter-steps/lease");
        let first = stage.operator.post(&path, short).await.ok().body["steps"][0].clone();
        let far = json!({"percent": 10, "lease_seconds": 5});
        let kept = stage.say(&first, "progress", generation(&first), far).await.ok();
        assert!(stage.lease(0).await.is_empty(), "it has a holder");
        let second = stage.lease(20).await.remove(0);
        // A waiting adapter gets the step when the lease expires, not at its next request.
        let lapses: Timestamp = kept.text_of("leased_until").parse().unwrap();
        let late = Env::system().now().duration_since(lapses);
        assert!(late.is_positive() && late < SignedDuration::from_secs(2), "{late} after the lease lapsed");
        assert_eq!(second["step"]["id"], first["step"]["id"]);
        assert_eq!((generation(&second), &second["step"]["attempts"]), (generation(&first) + 1, &json!(2)));
        stage.say(&first, "complete", generation(&first), json!({})).await.refused(409, "fenced");
        stage.say(&first, "heartbeat", generation(&first), json!({})).await.refused(409, "fenced");
        let later = json!({"reason": "busy", "message": "not now", "retry_after_seconds": 1});
        stage.say(&second, "fail", generation(&second), later).await.ok();
        let third = stage.lease(20).await.remove(0);
        assert_eq!((&third["step"]["id"], &third["step"]["attempts"]), (&first["step"]["id"], &json!(3)));
        let never = json!({"reason": "broken", "message": "it cannot be"});
        let failed = stage.say(&third, "fail", generation(&third), never.clone()).await.ok();
        assert_eq!((&failed.body["state"], &failed.body["reason"]), (&json!("failed"), &json!("broken")));
        stage.say(&third, "fail", generation(&third), never).await.ok();
        let told = stage.scene.told().await;
        assert_eq!(
            told.iter().filter(|word| *word == "adapter_step.lapsed").count(),
            1,
            "one lapsed, one was given back"
        );
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn step_is_invisible_and_unusable_to_other_accounts() {
    let stage = Stage::new(Database::sqlite()).await;
    let step = joining(&stage).await;
    let id = step["step"]["id"].as_str().unwrap();
    let held = generation(&step);
    // Another account of the project with all permissions, and the operator of another app.
    let other = stage.scene.fixture.client(&stage.scene.kit, "account_with_grant");
    stage.post("apps", json!({"slug": "other", "display_name": "Other"})).await.ok();
    let mut manifest = crate::instance::pool("1");
    manifest["app"] = json!("other");
    stage.post("apps/other/versions", json!({"manifest": manifest})).await.ok();
    let stranger = entitle(&stage.scene, "other").await;
    assert_eq!(stranger.post(&stage.at("adapter-steps/lease"), wish(0)).await.ok().body["steps"], json!([]));
    for client in [&stranger] {
        for verb in ["heartbeat", "progress", "complete"] {
            let path = stage.at(&format!("adapter-steps/{id}/{verb}"));
            client.post(&path, json!({"generation": held})).await.refused(404, "not_found");
        }
        let fail = json!({"generation": held, "reason": "no", "message": "no"});
        client.post(&stage.at(&format!("adapter-steps/{id}/fail")), fail).await.refused(404, "not_found");
        let task = json!({"generation": held, "key": "k", "member_id": step["step"]["member_id"],
                          "act": {"command": {"command": ["/bin/true"]}}});
        client.post(&stage.at(&format!("adapter-steps/{id}/tasks")), task).await.refused(404, "not_found");
    }
    // Nor is any of it visible: another app's instances do not exist for it.
    for path in [
        format!("adapter-steps/{id}"),
        "app-instances/farm".to_owned(),
        "app-instances/farm/members".to_owned(),
        "app-instances/farm/members/farm-head-1".to_owned(),
        "adapter-steps?instance=farm".to_owned(),
    ] {
        stranger.get(&stage.at(&path)).await.refused(404, "not_found");
        stage.operator.get(&stage.at(&path)).await.ok();
    }
    assert_eq!(stranger.get(&stage.at("adapter-steps")).await.ok().body["items"], json!([]));
    assert_eq!(
        stage.operator.get(&stage.at("adapter-steps")).await.ok().body["items"].as_array().unwrap().len(),
        1
    );
    let _ = other;
    // No person may call it, regardless of role.
    for person in ["tenant_admin", "operator"] {
        let client = stage.scene.fixture.client(&stage.scene.kit, person);
        client.post(&stage.at("adapter-steps/lease"), wish(0)).await.refused(403, "permission_denied");
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_from_the_future_is_refused_with_what_is_spoken_here() {
    let stage = Stage::new(Database::sqlite()).await;
    let mut newer = wish(0);
    newer["adapter"]["contract"] = json!(2);
    let refused =
        stage.operator.post(&stage.at("adapter-steps/lease"), newer).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/adapter/contract");
    assert!(refused.body["detail"].as_str().unwrap().contains("1 to 1"), "{}", refused.text);
    assert_eq!(stage.get("adapters").await["items"], json!([]), "it was not taken in");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_lease_request_wakes_for_a_step_and_ends_at_shutdown() {
    let stage = Stage::new(Database::sqlite()).await;
    let step = joining(&stage).await;
    stage.say(&step, "complete", generation(&step), json!({})).await.ok();
    // The worker's step follows once the head is active; the adapter gets it within a second of the commit that queued
    // it.
    let steps = stage.lease(30).await;
    let heard = Env::system().now();
    let asked: Timestamp = steps[0]["step"]["created_at"].as_str().unwrap().parse().unwrap();
    assert!(
        heard.duration_since(asked) < SignedDuration::from_secs(1),
        "it was asked for at {asked}, and heard at {heard}"
    );
    let (operator, path) = (stage.operator.clone(), stage.at("adapter-steps/lease"));
    let since = Instant::now();
    let waiting = tokio::spawn(async move { operator.post(&path, wish(60)).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (waited, ()) = tokio::join!(waiting, stage.stop());
    let leased: Value = waited.unwrap().ok().body;
    assert_eq!(leased["steps"], json!([]));
    assert!(since.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_cuts_an_adapter_off_at_once() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(1).await;
        let project = stage.at("entitlements");
        let admin = stage.scene.fixture.client(&stage.scene.kit, "tenant_admin");
        let entitlement = admin.get(&project).await.ok().body["items"][0]["id"].as_str().unwrap().to_owned();
        let revoke = format!("{project}/{entitlement}/revoke");
        admin.post(&revoke, json!({})).await.ok();
        stage.operator.get("/v1/whoami").await.ok();
        admin.post(&revoke, json!({})).await.refused(409, "invalid_state");
        // A wait that began earlier ends too, and does not return as if nothing had happened.
        let waiting = tokio::spawn({
            let (operator, path) = (stage.operator.clone(), stage.at("adapter-steps/lease"));
            async move { operator.post(&path, crate::instance::wish(8)).await }
        });
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let started = std::time::Instant::now();
        admin.post(&revoke, json!({"cut_off": true})).await.ok();
        stage.operator.get("/v1/whoami").await.refused(401, "unauthenticated");
        let answer = waiting.await.unwrap();
        assert!(answer.status == 401 || answer.body["steps"] == json!([]), "{}", answer.text);
        assert!(started.elapsed() < std::time::Duration::from_secs(15));
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_off_expires_the_tasks_that_the_adapter_asked_for() {
    for database in Database::both() {
        let mut stage = Stage::new(database).await;
        let step = super::joining(&stage).await;
        let store = stage.scene.kit.store();
        // No agent comes for it.
        stage.nodes.fleet.stop().await;
        let act = json!({"command": {"command": ["/bin/true"]}});
        let ask = async |key: &str| {
            let body = json!({"key": key, "member_id": step["step"]["member_id"], "act": act});
            stage.say(&step, "tasks", generation(&step), body).await
        };
        let queued = ask("queued").await.ok();
        assert_eq!(queued.body["state"], "queued", "{}", queued.text);
        let task = queued.text_of("id").parse().unwrap();
        let found = store.task_lookup(task).await.unwrap().unwrap();
        let others =
            |tasks: Vec<Task>| -> Vec<Task> { tasks.into_iter().filter(|other| other.id != task).collect() };
        let before = others(store.task_list(found.operation_id).await.unwrap());
        let admin = stage.scene.fixture.client(&stage.scene.kit, "tenant_admin");
        let project = stage.at("entitlements");
        let entitlement = admin.get(&project).await.ok().body["items"][0]["id"].as_str().unwrap().to_owned();
        let revoke = format!("{project}/{entitlement}/revoke");
        admin.post(&revoke, json!({})).await.ok();
        assert_eq!(store.task_lookup(task).await.unwrap().unwrap().state, TaskState::Queued);
        admin.post(&revoke, json!({"cut_off": true})).await.ok();
        let expired = store.task_lookup(task).await.unwrap().unwrap();
        assert_eq!(expired.state, TaskState::Expired);
        assert!(expired.finished_at.is_some());
        let after = others(store.task_list(found.operation_id).await.unwrap());
        let states = |tasks: &[Task]| tasks.iter().map(|task| task.state).collect::<Vec<_>>();
        assert_eq!(states(&after), states(&before), "the operation's own tasks are not the adapter's");
        // Nothing is queued under its lease afterwards, whatever credential it is asked with.
        let mut tx = store.begin().await.unwrap();
        let id = step["step"]["id"].as_str().unwrap().parse().unwrap();
        let fence = tx.adapter_step_fence(id, generation(&step), Env::system().now()).await;
        assert!(matches!(fence, Err(StoreError::Fenced)));
        tx.rollback().await;
        stage.stop().await;
    }
}
