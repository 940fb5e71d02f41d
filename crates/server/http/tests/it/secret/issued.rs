//! Runtime secrets, issued to service accounts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use muster_ids::NodeId;
use muster_model::token::Secret;
use muster_testkit::{Database, Fixture, Kit};
use serde_json::{Value, json};

use super::{account, issuer, pushed};

const BOOTSTRAP: &str = "runtime_secret.cluster_bootstrap";
const ISSUE: &str = "runtime_secret.issue";

fn bootstrap(name: &str) -> Value {
    json!({"purpose": "cluster_bootstrap", "name": name})
}

fn path(fixture: &Fixture) -> String {
    format!("/v1/projects/{}/runtime-secrets", fixture.id("train"))
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_secret_is_shown_once_and_erased_on_revocation() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (admin, issuer) = (fixture.client(&kit, "project_admin"), issuer(&kit, &fixture).await);
        let issued = path(&fixture);
        let first = issuer.post_with_key(&issued, bootstrap("gossip"), "k").await.ok();
        assert_eq!(STANDARD.decode(first.text_of("value")).unwrap().len(), 32);
        let again = issuer.post_with_key(&issued, bootstrap("gossip"), "k").await.ok();
        assert_eq!((&again.body["id"], &again.body["secret_shown_once"]), (&first.body["id"], &json!(true)));
        assert_eq!(again.body.get("value"), None);
        let long = json!({"purpose": "cluster_bootstrap", "name": "long", "bytes": 4096});
        let long = issuer.post(&issued, long).await.ok();
        assert_eq!(STANDARD.decode(long.text_of("value")).unwrap().len(), 4096);
        let list = admin.get(&format!("{issued}?purpose=cluster_bootstrap")).await.ok();
        assert_eq!(list.body["items"].as_array().unwrap().len(), 2);
        assert!(!list.text.contains(&first.text_of("value")));
        assert_eq!(admin.get(&format!("{issued}?purpose=artifact_pull")).await.ok().body["items"], json!([]));

        let one = format!("{issued}/{}", first.text_of("id"));
        assert_eq!(admin.get(&one).await.ok().body.get("value"), None);
        let viewer = fixture.client(&kit, "viewer");
        viewer.get(&one).await.ok();
        viewer.post(&format!("{one}/revoke"), json!({})).await.refused(403, "permission_denied");
        let id = first.text_of("id").parse().unwrap();
        assert!(kit.store().runtime_secret_lookup(id).await.unwrap().unwrap().sealed.is_some());
        let revoked = admin.post(&format!("{one}/revoke"), json!({"reason": "a test"})).await.ok();
        assert!(revoked.body["revoked_at"].is_string());
        assert_eq!(kit.store().runtime_secret_lookup(id).await.unwrap().unwrap().sealed, None);
        admin.post(&format!("{one}/revoke"), json!({})).await.refused(409, "invalid_state");
        kit.stop().await;
    }
}

/// Plain secrets are only issued to service accounts with the purpose in their permissions: no role suffices, and neither
/// half of the permission.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_service_account_whose_list_names_the_purpose_is_issued_anything() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let issued = path(&fixture);
    for person in ["viewer", "project_admin", "tenant_admin", "operator"] {
        let person = fixture.client(&kit, person);
        person.post(&issued, bootstrap("mine")).await.refused(403, "permission_denied");
    }
    for outsider in ["other_tenant_admin", "sibling_project_admin", "account_of_other_project"] {
        let outsider = fixture.client(&kit, outsider);
        outsider.post(&issued, bootstrap("mine")).await.refused(404, "not_found");
    }
    let halves: [(&str, &[&str]); 3] = [
        ("nothing", &[]),
        ("no-purpose", &[ISSUE, "runtime_secret.artifact_pull"]),
        ("purpose-alone", &[BOOTSTRAP]),
    ];
    for (name, permissions) in halves {
        let half = account(&kit, &fixture, name, permissions).await;
        half.post(&issued, bootstrap("mine")).await.refused(403, "permission_denied");
    }
    let whole = account(&kit, &fixture, "whole", &[ISSUE, BOOTSTRAP]).await;
    whole.post(&issued, bootstrap("mine")).await.ok();
    let pull = json!({"purpose": "artifact_pull", "name": "mine", "repository": "base", "cell": "x"});
    whole.post(&issued, pull).await.refused(403, "permission_denied");
    // Permissions can only be set with the permission to create accounts.
    let accounts = format!("/v1/projects/{}/service-accounts", fixture.id("train"));
    let body = json!({"name": "another", "permissions": [ISSUE, BOOTSTRAP]});
    for nobody in ["viewer", "operator"] {
        fixture.client(&kit, nobody).post(&accounts, body.clone()).await.refused(403, "permission_denied");
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_for_a_living_cell_and_a_repository_of_the_project() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let (issuer, issued) = (issuer(&kit, &fixture).await, path(&fixture));
        pushed(&kit).await;
        let node: NodeId = crate::fleet_api::machine(&kit, "one", 0).await;
        let cell = crate::stream::cell(kit.store(), fixture.id("train"), node, "shell").await;
        let elsewhere = crate::stream::cell(kit.store(), fixture.id("serve"), node, "other").await;
        let ask = |also: Value| {
            let mut body = json!({"purpose": "artifact_pull", "name": "mine"});
            body.as_object_mut().unwrap().extend(also.as_object().unwrap().clone());
            issuer.post(&issued, body)
        };
        for (also, pointer) in [
            (json!({"cell": "shell"}), "/repository"),
            (json!({"repository": "base"}), "/cell"),
            (json!({"repository": "base", "cell": "shell", "bytes": 32}), "/bytes"),
        ] {
            let refused = ask(also).await.refused(400, "invalid_request");
            assert_eq!(refused.body["errors"][0]["pointer"], pointer);
        }
        for also in [
            json!({"repository": "none", "cell": "shell"}),
            json!({"repository": "base", "cell": "none"}),
            json!({"repository": "base", "cell": elsewhere}),
        ] {
            ask(also).await.refused(404, "not_found");
        }
        for (field, value) in [("repository", "base"), ("cell", "shell")] {
            let mut body = bootstrap("mine");
            body[field] = json!(value);
            let refused = issuer.post(&issued, body).await.refused(400, "invalid_request");
            assert_eq!(refused.body["errors"][0]["pointer"], format!("/{field}"));
        }
        let given = ask(json!({"repository": "base", "cell": "shell"})).await.ok();
        let token = Secret::parse(&given.text_of("value")).unwrap();
        assert!(token.reveal().starts_with("mst_pull_"));
        let kept = kit.store().runtime_secret_by_hash(&token.hash()).await.unwrap().unwrap();
        assert_eq!((kept.cell_id, kept.incarnation, kept.sealed), (Some(cell), Some(1), None));
        let lasts = given.text_of("expires_at").parse::<Timestamp>().unwrap().duration_since(kept.created_at);
        assert_eq!(lasts, SignedDuration::from_hours(1));
        // It grants no access to this API.
        kit.client_of(0, token.reveal()).get("/v1/whoami").await.refused(401, "unauthenticated");

        let store = kit.store();
        let before = store.cell_lookup(cell).await.unwrap().unwrap();
        let going =
            muster_model::cell::Cell { state: muster_model::cell::CellState::Destroying, ..before.clone() };
        let mut tx = store.begin().await.unwrap();
        tx.cell_move(&before, &going, before.updated_at).await.unwrap();
        tx.commit().await.unwrap();
        ask(json!({"repository": "base", "cell": "shell"})).await.refused(409, "invalid_state");
        kit.stop().await;
    }
}
