//! Refusals, each with advice; and their effect, which is none.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Stage, pool};

/// Returns a launch request for `farm`, with this change.
fn launch(change: Value) -> Value {
    let mut body = json!({"name": "farm", "app": "pool", "app_version": "1"});
    for (key, value) in change.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_does_not_make_sense_is_refused_by_its_place() {
    let stage = Stage::new(Database::sqlite()).await;
    let at = async |change: Value| {
        let refused = stage.post("app-instances", launch(change)).await.refused(400, "invalid_request");
        refused.body["errors"][0]["pointer"].as_str().unwrap().to_owned()
    };
    let component = |more: Value| json!({"components": [more]});
    assert_eq!(at(json!({"name": "default"})).await, "/name");
    assert_eq!(at(json!({"config": {"partitions": 0}})).await, "/config/partitions");
    assert_eq!(at(component(json!({"component_key": "cook"}))).await, "/components/0/component_key");
    assert_eq!(at(component(json!({"component_key": "worker", "count": 7}))).await, "/components/0/count");
    assert_eq!(at(component(json!({"component_key": "head", "count": 0}))).await, "/components/0/count");
    let little = json!({"gpus": 0, "cpus": 0, "memory_mb": 1, "disk_mb": 0});
    assert_eq!(
        at(component(json!({"component_key": "worker", "capacity": little}))).await,
        "/components/0/capacity/cpus"
    );
    assert_eq!(at(json!({"ready_until": "2020-01-01T00:00:00Z"})).await, "/ready_until");
    let twice = json!({"components": [{"component_key": "worker"}, {"component_key": "worker"}]});
    assert_eq!(at(twice).await, "/components/1/component_key");

    let shape = stage.post("app-instances", launch(json!({"shape": "baremetal"}))).await;
    let shape = shape.refused(409, "incompatible");
    assert!(shape.body["detail"].as_str().unwrap().contains("this would fit"), "{}", shape.text);
    let absent = launch(component(json!({"component_key": "worker", "allocation": "nowhere"})));
    stage.post("app-instances", absent).await.refused(404, "not_found");
    stage.post("app-instances", launch(json!({"app": "nothing"}))).await.refused(404, "not_found");
    stage.post("app-instances", launch(json!({"app_version": "9"}))).await.refused(404, "not_found");

    let plan = stage.post("app-instances", launch(json!({"dry_run": true}))).await.ok();
    assert!(plan.body["operation"].is_null());
    assert_eq!(plan.body["plan"]["capacity"]["memory_mb"], 512, "two members of 256 MiB: {}", plan.text);
    assert_eq!(stage.get("app-instances").await["items"], json!([]), "none of this left anything");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_is_entitled_launches_and_the_secrets_of_the_manifest_must_be_there() {
    let stage = Stage::new(Database::sqlite()).await;
    // The sibling project finds the app, and has not consented to anything.
    let sibling = stage.scene.fixture.client(&stage.scene.kit, "sibling_project_admin");
    let path = format!("/v1/projects/{}/app-instances", stage.scene.fixture.id("serve"));
    let refused = sibling.post(&path, launch(json!({}))).await.refused(403, "permission_denied");
    assert!(
        refused.body["detail"].as_str().unwrap().contains("muster entitlement grant"),
        "{}",
        refused.text
    );
    let entitlements = stage.get("entitlements").await;
    let id = entitlements["items"][0]["id"].as_str().unwrap();

    let mut manifest = pool("secretive");
    manifest["components"][0]["runtime"]["secrets"] = json!([{"secret": "licence", "file": "licence"}]);
    stage.post("apps/pool/versions", json!({"manifest": manifest})).await.ok();
    let asked = launch(json!({"app_version": "secretive", "dry_run": true}));
    let refused = stage.post("app-instances", asked.clone()).await.refused(409, "invalid_state");
    assert!(refused.body["detail"].as_str().unwrap().contains("licence"), "{}", refused.text);
    stage.post("secrets", json!({"name": "licence", "value": "x"})).await.ok();
    stage.post("app-instances", asked).await.ok();

    stage.post(&format!("entitlements/{id}/revoke"), json!({})).await.ok();
    stage.post("app-instances", launch(json!({}))).await.refused(403, "permission_denied");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_asked_only_what_they_can_be_asked() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.running(2).await;
    let no = async |verb: &str, body: Value| {
        let refused = stage.order(verb, body).await.refused(409, "invalid_state");
        refused.body["detail"].as_str().unwrap().to_owned()
    };
    let one = json!({"members": ["farm-worker-1"]});
    assert!(no("resume", one.clone()).await.contains("farm-worker-1 is active"));
    assert!(no("recover", one.clone()).await.contains("farm-worker-1 is active"));
    assert!(no("remove", json!({"members": ["farm-head-1"]})).await.contains("head needs 1 members"));
    stage.order("drain", json!({"members": ["farm-nobody"]})).await.refused(404, "not_found");
    let twice = stage.order("drain", json!({"members": ["farm-worker-1", "farm-worker-1"]})).await;
    assert_eq!(twice.refused(400, "invalid_request").body["errors"][0]["pointer"], "/members/1");
    stage.order("add", json!({"component_key": "worker", "count": 5})).await.refused(400, "invalid_request");
    stage.order("add", json!({"component_key": "cook"})).await.refused(400, "invalid_request");
    let viewer = stage.scene.fixture.client(&stage.scene.kit, "viewer");
    let path = stage.at("app-instances/farm/member-operations/remove");
    viewer.post(&path, one.clone()).await.refused(403, "permission_denied");
    // An operator may only use force.
    let platform = stage.scene.kit.operator();
    platform.post(&path, one).await.refused(403, "permission_denied");
    let forced = json!({"members": ["farm-worker-1"], "force": true, "dry_run": true});
    platform.post(&path, forced).await.ok();
    assert!(
        stage.members().await.iter().all(|member| member["state"] == "active"),
        "nothing of this had an effect"
    );

    stage.post("app-instances/farm/rollback", json!({})).await.refused(409, "invalid_state");
    let same = stage.post("app-instances/farm/upgrade", json!({"app_version": "1"})).await;
    assert!(same.refused(409, "invalid_state").text.contains("already runs 1"));
    let scale = json!({"components": [{"component_key": "worker", "count": 2}]});
    stage.post("app-instances/farm/scale", scale).await.refused(409, "invalid_state");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_or_held_resources_are_kept_and_updates_check_their_version() {
    let stage = Stage::new(Database::sqlite()).await;
    stage.scene.allocate("held", 0).await;
    let adapter = super::Good::start(&stage);
    let components =
        json!([{"component_key": "head", "allocation": "held"}, {"component_key": "worker", "count": 0}]);
    let started =
        stage.post("app-instances", launch(json!({"components": components, "protected": true}))).await;
    stage.scene.done(started).await;
    adapter.stop().await;
    let taken = stage.post("app-instances", launch(json!({}))).await;
    assert!(taken.refused(409, "name_taken").text.contains("farm"));
    let refused =
        stage.post("app-instances/farm/decommission", json!({})).await.refused(409, "invalid_state");
    assert!(refused.text.contains("protected"));
    let refused = stage.post("allocations/held/release", json!({})).await.refused(409, "invalid_state");
    assert!(refused.text.contains("farm-head-1"), "{}", refused.text);
    let admin = &stage.scene.admin;
    let path = stage.at("app-instances/farm");
    // Without the permission to decommission, an account can neither set an expiry nor lift the protection.
    let account = json!({"name": "labeller", "permissions": ["instance.get", "instance.update"]});
    let account = admin.post(&stage.at("service-accounts"), account).await.ok().text_of("id");
    let token = admin.post("/v1/tokens", json!({"service_account": account, "name": "t"})).await.ok();
    let labeller = admin.with_token(&token.text_of("secret"));
    labeller.patch(&path, json!({"labels": {"by": "labeller"}})).await.ok();
    labeller.patch(&path, json!({"protected": false})).await.refused(403, "permission_denied");
    let soon = muster_ids::Env::system().now() + jiff::SignedDuration::from_secs(60);
    labeller.patch(&path, json!({"expires_at": soon})).await.refused(403, "permission_denied");
    let request = admin.request(reqwest::Method::PATCH, &path).header("if-match", "\"1\"");
    admin.send(request.json(&json!({"protected": false}))).await.refused(412, "version_mismatch");
    let request = admin.request(reqwest::Method::PATCH, &path).header("if-match", "*");
    let updated = admin.send(request.json(&json!({"protected": false, "labels": {"team": "ml"}}))).await.ok();
    assert_eq!((&updated.body["protected"], &updated.body["labels"]["team"]), (&json!(false), &json!("ml")));
    assert_eq!(stage.get("app-instances?labels=team=ml").await["items"].as_array().unwrap().len(), 1);
    let project =
        stage.scene.admin.request(reqwest::Method::DELETE, &format!("{}?cascade=true", stage.scene.base));
    let refused = stage.scene.admin.send(project.header("if-match", "*")).await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    // `muster exec mem_…` resolves the cell by its member.
    let member = stage.member("farm-head-1").await;
    let cell = stage.get(&format!("cells/{}", member["id"].as_str().unwrap())).await;
    assert_eq!(cell["id"], member["cell_id"]);
    for (verb, instead) in [("destroy", "remove"), ("restart", "recover or replace")] {
        let path = format!("cells/{}/{verb}", member["id"].as_str().unwrap());
        let refused = stage.post(&path, json!({"reason": "behind its back"})).await;
        let refused = refused.refused(409, "invalid_state");
        assert!(refused.text.contains(&format!("farm-head-1: {instead}")), "{}", refused.text);
    }
    stage.stop().await;
}
