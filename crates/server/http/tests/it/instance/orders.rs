//! Conflicting actions on members, and actions on an instance that is protected or being decommissioned.

use muster_control::Share;
use muster_model::instance::Instance;
use muster_testkit::Database;
use serde_json::json;

use super::{Good, Stage, pool, token_of};
use crate::cell::until;

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_that_is_blocked_does_not_keep_its_member_from_being_removed() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(3).await;
    let adapter = Good::start(&stage);
    stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-1"]})).await).await;
    adapter.stop().await;
    // There is no adapter, and the deadline is short.
    let soon = muster_ids::Env::system().now() + jiff::SignedDuration::from_secs(1);
    let resume = json!({"members": ["farm-worker-1"], "ready_until": soon});
    let resume = stage.order("resume", resume).await.ok();
    let id = resume.body["operation"]["id"].as_str().unwrap();
    until("it is blocked", async || {
        stage.scene.admin.get(&format!("/v1/operations/{id}")).await.ok().body["state"] == "blocked"
    })
    .await;
    let force = json!({"members": ["farm-worker-1"], "force": true});
    let removed = stage.order("remove", force).await.ok();
    assert_eq!(removed.body["operation"]["supersedes"], id, "{}", removed.text);
    let adapter = Good::start(&stage);
    stage.scene.done(removed).await;
    adapter.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_member_that_was_active_is_subtracted_on_removal() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(3).await;
    let adapter = Good::start(&stage);
    stage.scene.done(stage.order("drain", json!({"members": ["farm-worker-1"]})).await).await;
    adapter.stop().await;
    let soon = muster_ids::Env::system().now() + jiff::SignedDuration::from_secs(1);
    let resume = json!({"members": ["farm-worker-1"], "ready_until": soon});
    let resume = stage.order("resume", resume).await.ok();
    let operation = format!("/v1/operations/{}", resume.body["operation"]["id"].as_str().unwrap());
    until("it is blocked", async || stage.scene.admin.get(&operation).await.ok().body["state"] == "blocked")
        .await;
    let abandon = json!({"action": "abandon", "statement": "it does not come back"});
    stage.scene.admin.post(&format!("{operation}/resolve"), abandon).await.ok();
    assert_eq!(stage.scene.ended(&resume).await["state"], "cancelled");
    assert_eq!(stage.member("farm-worker-1").await["state"], "failed");
    let wanted =
        async || stage.get("app-instances/farm").await["topology"]["components"][1]["desired"].clone();
    assert_eq!(wanted().await, 3, "it is wanted, and could be recovered");
    let adapter = Good::start(&stage);
    stage.scene.done(stage.order("remove", json!({"members": ["farm-worker-1"]})).await).await;
    assert_eq!(wanted().await, 2);
    adapter.stop().await;
    stage.stop().await;
}

/// A removal lowers the desired count when it is accepted. A replacement that supersedes it brings a successor, which counts.
#[tokio::test(flavor = "multi_thread")]
async fn replacement_that_supersedes_a_removal_restores_the_desired_count() {
    for all in [json!(["farm-worker-1"]), json!(["farm-worker-1", "farm-worker-2"])] {
        let stage = Stage::new(Database::sqlite()).await;
        stage.running(4).await;
        let desired = async || {
            stage.get("app-instances/farm").await["topology"]["components"][1]["desired"].as_i64().unwrap()
        };
        let before = desired().await;
        let fewer = i64::try_from(all.as_array().unwrap().len()).unwrap();
        // There is no adapter, so the removals wait for one.
        stage.order("remove", json!({"members": all})).await.ok();
        assert_eq!(desired().await, before - fewer);
        let open = async || stage.member("farm-worker-1").await["state"] == "draining";
        until("its own removal is under way", open).await;
        let forced = json!({"members": ["farm-worker-1"], "force": true});
        let replace = stage.order("replace", forced).await.ok();
        assert_eq!(desired().await, before - fewer + 1, "the successor counts");
        let adapter = Good::start(&stage);
        stage.scene.done(replace).await;
        assert_eq!(desired().await, before - fewer + 1);
        let successor = stage.member(&format!("farm-worker-{}", before + 1)).await;
        assert_eq!(successor["state"], "active", "{successor:#}");
        // The count stays right for what comes next.
        let last = json!({"members": [successor["name"]], "force": true});
        stage.scene.done(stage.order("remove", last).await).await;
        assert_eq!(desired().await, before - fewer);
        adapter.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn member_being_replaced_cannot_be_resumed() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(4).await;
    let adapter = Good::start(&stage);
    let two = json!({"members": ["farm-worker-1"]});
    stage.scene.done(stage.order("drain", two).await).await;
    adapter.stop().await;
    // With several members there is no child for each yet; with one there is.
    let both = json!({"members": ["farm-worker-1", "farm-worker-2"]});
    for body in [both, json!({"members": ["farm-worker-1"]})] {
        let replace = stage.order("replace", body).await.ok();
        let refused = stage.order("resume", json!({"members": ["farm-worker-1"]})).await;
        let refused = refused.refused(409, "invalid_state");
        assert!(refused.text.contains("farm-worker-1 is being replaced"), "{}", refused.text);
        let id = replace.body["operation"]["id"].as_str().unwrap();
        stage.scene.admin.post(&format!("/v1/operations/{id}/cancel"), json!({})).await.ok();
        let adapter = Good::start(&stage);
        stage.scene.ended(&replace).await;
        adapter.stop().await;
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn apply_to_a_stopping_instance_is_refused() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(0).await;
    let farm = json!({"name": "farm", "app": "pool", "app_version": "1"});
    stage.post("app-instances/apply", farm.clone()).await.ok();
    let mut past = farm.clone();
    past["expires_at"] = json!("2020-01-01T00:00:00Z");
    let refused = stage.post("app-instances/apply", past).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/expires_at");
    let down = stage.post("app-instances/farm/decommission", json!({})).await.ok();
    until("it is stopping", async || stage.get("app-instances/farm").await["state"] == "stopping").await;
    let mut labelled = farm.clone();
    labelled["labels"] = json!({"team": "ml"});
    for body in [farm, labelled] {
        let refused = stage.post("app-instances/apply", body).await.refused(409, "invalid_state");
        assert!(refused.text.contains("farm is stopping"), "{}", refused.text);
    }
    let adapter = Good::start(&stage);
    stage.scene.done(down).await;
    adapter.stop().await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protection_set_during_a_decommission_request_prevents_it() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        let farm = stage.running(0).await;
        let store = stage.scene.kit.store();
        let before = store.instance_lookup(farm["id"].as_str().unwrap().parse().unwrap()).await;
        let before = before.unwrap().unwrap();
        let mut tx = store.begin().await.unwrap();
        let after = Instance { protected: true, ..before.clone() };
        tx.instance_move(&before, &after, before.updated_at).await.unwrap();
        let (down, ()) = tokio::join!(stage.post("app-instances/farm/decommission", json!({})), async {
            // By then it has read the instance, and waits to write.
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            tx.commit().await.unwrap();
        });
        assert!(down.refused(409, "invalid_state").text.contains("protected"));
        assert_eq!(stage.get("app-instances/farm").await["state"], "running");
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_puts_members_into_allocations_of_its_instance_alone() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    stage.scene.allocate("private", 0).await;
    let add = stage.at("app-instances/farm/member-operations/add");
    let into = |allocation: &str| json!({"component_key": "worker", "allocation": {"id": allocation}, "dry_run": true});
    let hidden = stage.operator.post(&add, into("private")).await.refused(404, "not_found");
    let absent = stage.operator.post(&add, into("nothing")).await.refused(404, "not_found");
    assert_eq!(hidden.body["detail"], absent.body["detail"], "it does not learn that there is one");
    stage.scene.admin.post(&add, into("private")).await.ok();
    let own = stage.member("farm-worker-1").await["allocation_id"].as_str().unwrap().to_owned();
    assert_ne!(stage.operator.post(&add, into(&own)).await.status, 404);
    stage.stop().await;
}

/// No release asks for the right to change allocations. An account that has it nevertheless changes those of its instance alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_changes_allocations_of_its_instance_alone() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(1).await;
    stage.scene.allocate("private", 0).await;
    let verbs = ["update", "release", "restart", "resize"].map(|verb| format!("allocation.{verb}"));
    let mut manifest = pool("2");
    manifest["permissions"] = json!(verbs);
    let version = json!({"manifest": manifest});
    let refused = stage.post("apps/pool/versions", version).await.refused(409, "lint_failed");
    assert!(refused.text.contains("forbidden_permission"), "{}", refused.text);

    let own = stage.member("farm-worker-1").await["allocation_id"].as_str().unwrap().to_owned();
    let labels = json!({"labels": {"owner": "adapter"}});
    let at = |allocation: &str| stage.at(&format!("allocations/{allocation}"));
    stage.operator.patch(&at("private"), labels.clone()).await.refused(403, "permission_denied");
    let grant = "UPDATE service_accounts SET permissions = '[\"allocation.update\", \"allocation.release\", \
                 \"allocation.restart\", \"allocation.resize\"]'";
    stage.scene.kit.store().sabotage(grant).await.unwrap();
    // Accounts are cached for two seconds.
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    stage.operator.patch(&at("private"), labels.clone()).await.refused(404, "not_found");
    for (verb, body) in [("release", json!({})), ("restart", json!({})), ("resize", json!({"cpus": 1}))] {
        let path = format!("{}/{verb}", at("private"));
        let answer = stage.operator.post(&path, body).await;
        assert_eq!(answer.status, 404, "{verb}: {}", answer.text);
    }
    stage.operator.patch(&at(&own), labels.clone()).await.ok();
    stage.scene.admin.patch(&at("private"), labels).await.ok();
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adapter_counts_in_the_share_of_its_publisher_and_its_consumer_does_not() {
    let stage = Stage::new(Database::sqlite()).await;
    let platform = &stage.scene.kit.servers[0].platform;
    let now = platform.env.now();
    let page = stage.scene.admin.get(&stage.at("entitlements")).await.ok();
    let account = page.body["items"][0]["operator_account_id"].as_str().unwrap().parse().unwrap();
    let token = token_of(&stage.scene.kit, account).await;
    let adapter = platform.authenticate(&token, now).await.unwrap();
    let publisher = stage.scene.fixture.id("acme").parse().unwrap();
    assert_eq!(Share::of_actor(&adapter), Share::Publisher(publisher));
    let user = platform.authenticate(stage.scene.fixture.token("tenant_admin"), now).await.unwrap();
    assert_eq!(Share::of_actor(&user), Share::Tenant(publisher));
    stage.stop().await;
}
