//! Apps without an adapter: there is nothing to consent to, so they are launched without a grant.

use muster_agent_sim::Odds;
use muster_testkit::Database;
use serde_json::{Value, json};

use super::{pool, speaks_for};
use crate::cell::{Nodes, Scene, stop};

/// Publishes a release of the app `note` with one component, of this kind.
async fn publish(scene: &Scene, version: &str, kind: &str) {
    let mut manifest = pool(version);
    manifest["app"] = json!("note");
    manifest["artifact_kind"] = json!(kind);
    manifest["components"].as_array_mut().unwrap().truncate(1);
    let path = format!("{}/apps/note/versions", scene.base);
    scene.admin.post(&path, json!({"manifest": manifest})).await.ok();
    let step = json!({"to": "staged", "reason": "a test"});
    scene.admin.post(&format!("{path}/{version}/promote"), step).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_without_an_adapter_is_launched_without_a_grant() {
    for database in Database::both() {
        let scene = Scene::new(database, 1).await;
        let nodes = Nodes::with(&scene, &["one"], Odds::default()).await;
        let app = json!({"slug": "note", "display_name": "Note", "audience": "everyone"});
        scene.admin.post(&format!("{}/apps", scene.base), app).await.ok();
        publish(&scene, "1", "launchable").await;
        let at = |rest: &str| format!("{}/{rest}", scene.base);
        let launch = async |name: &str, version: &str| {
            let body = json!({"name": name, "app": "note", "app_version": version});
            scene.admin.post(&at("app-instances"), body).await
        };
        let grant = async |more: Value| {
            let mut body = json!({"app": "note"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            scene.admin.post(&at("entitlements"), body).await
        };
        let dry = grant(json!({"dry_run": true})).await.ok();
        assert_eq!(dry.body["permissions"], json!([]), "there is no adapter to consent to");
        let refused = grant(json!({"consent": ["adapter_step.lease"]})).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/consent");
        assert!(refused.text.contains("muster instance create note"), "{}", refused.text);
        // Two at once, of which the first to commit creates the entitlement.
        let (one, two) = tokio::join!(launch("one", "1"), launch("two", "1"));
        for started in [one, two] {
            scene.done(started).await;
        }
        let one = scene.admin.get(&at("app-instances/one")).await.ok().body;
        assert_eq!((&one["state"], &one["health"]), (&json!("running"), &json!("healthy")), "{one:#}");
        let list = scene.admin.get(&at("entitlements")).await.ok().body;
        let list = list["items"].as_array().unwrap().clone();
        assert_eq!((list.len(), &list[0]["permissions"]), (1, &json!([])), "{list:#?}");
        let account = scene.admin.get(&at("service-accounts/app-note")).await.ok().body;
        assert_eq!(
            (&account["disabled"], &account["permissions"]),
            (&json!(true), &json!([])),
            "nobody uses it"
        );
        assert_eq!(scene.data_of("entitlement.granted").await.len(), 1);

        let mint = json!({"entitlement": list[0]["id"]});
        let publisher = json!({"name": "publisher", "permissions": ["operator_token.mint"]});
        let publisher = scene.admin.post(&at("service-accounts"), publisher).await.ok();
        let publisher = speaks_for(&scene.kit, publisher.text_of("id").parse().unwrap()).await;
        let refused = publisher.post(&at("operator-tokens"), mint).await.refused(409, "invalid_state");
        assert!(refused.text.contains("muster entitlement grant note"), "{}", refused.text);

        // A release with an adapter needs a consent to it, for a launch and for an upgrade.
        publish(&scene, "2", "controller").await;
        launch("three", "2").await.refused(403, "permission_denied");
        let upgrade = json!({"app_version": "2", "dry_run": true});
        let upgraded = async || scene.admin.post(&at("app-instances/one/upgrade"), upgrade.clone()).await;
        upgraded().await.refused(403, "permission_denied");
        let asked = grant(json!({"dry_run": true})).await.ok().body["permissions"].clone();
        assert!(asked.as_array().unwrap().contains(&json!("adapter_step.lease")), "{asked:#}");
        let granted = grant(json!({"consent": asked})).await.ok();
        assert_eq!(granted.body["entitlement"]["id"], list[0]["id"], "it is renewed");
        let account = scene.admin.get(&at("service-accounts/app-note")).await.ok().body;
        assert_eq!(account["disabled"], false);
        upgraded().await.ok();

        // A revocation forbids launches also of an app without an adapter.
        let id = list[0]["id"].as_str().unwrap();
        scene.admin.post(&at(&format!("entitlements/{id}/revoke")), json!({})).await.ok();
        launch("four", "1").await.refused(403, "permission_denied");
        stop(scene, nodes).await;
    }
}
