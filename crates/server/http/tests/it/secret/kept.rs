//! A project's secrets.

use muster_testkit::{Database, Fixture, Kit};
use reqwest::Method;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_kept_rotated_and_removed_and_never_shown() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "project_admin");
        let secrets = format!("/v1/projects/{}/secrets", fixture.id("train"));
        let body = json!({"name": "db-password", "value": "c4n4ry one"});
        let made = admin.post_with_key(&secrets, body.clone(), "k").await.ok();
        assert_eq!((made.status, &made.body["revision"], &made.body["size"]), (201, &json!(1), &json!(10)));
        let replayed = admin.post_with_key(&secrets, body, "k").await.ok();
        assert_eq!((&replayed.body, replayed.header("idempotency-replayed")), (&made.body, "true"));
        let other = json!({"name": "db-password", "value": "c4n4ry two"});
        admin.post_with_key(&secrets, other.clone(), "k").await.refused(422, "idempotency_key_reused");
        let taken = admin.post(&secrets, other).await.refused(409, "name_taken");
        assert!(taken.text.contains("`muster secret rotate db-password`"), "{}", taken.text);

        let id = made.text_of("id");
        let encoded = json!({"value": "/wA=", "encoding": "base64"});
        let rotated = admin.post(&format!("{secrets}/db-password/rotate"), encoded).await.ok();
        let seen = (&rotated.body["revision"], &rotated.body["size"], &rotated.body["version"]);
        assert_eq!(seen, (&json!(2), &json!(2), &json!(2)));
        for reference in [id.as_str(), "db-password"] {
            let shown = admin.get(&format!("{secrets}/{reference}")).await.ok();
            assert_eq!((&shown.body, shown.header("etag")), (&rotated.body, "\"2\""));
        }
        admin.post(&secrets, json!({"name": "second", "value": "x"})).await.ok();
        let page = admin.get(&format!("{secrets}?page_size=1")).await.ok();
        assert_eq!(page.body["items"], json!([rotated.body]));
        let rest = admin.get(&format!("{secrets}?page_token={}", page.text_of("next_page_token"))).await.ok();
        assert_eq!(rest.body["items"][0]["name"], "second");

        let path = format!("{secrets}/{id}");
        let delete =
            |version: &str| admin.send(admin.request(Method::DELETE, &path).header("if-match", version));
        delete("\"1\"").await.refused(412, "version_mismatch");
        assert_eq!(delete("\"2\"").await.ok().body["id"], json!(id));
        admin.get(&path).await.refused(404, "not_found");
        kit.sealed().await;
        let events = admin.get(&format!("/v1/events?project={}", fixture.id("train"))).await.ok();
        for word in ["created", "rotated", "deleted"] {
            assert!(events.text.contains(&format!("dev.muster.secret.{word}")), "{word}: {}", events.text);
        }
        assert!(!events.text.contains("c4n4ry"));
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_content_has_bounds() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "project_admin");
    let secrets = format!("/v1/projects/{}/secrets", fixture.id("train"));
    let largest = json!({"name": "largest", "value": "x".repeat(65_536)});
    assert_eq!(admin.post(&secrets, largest).await.ok().body["size"], 65_536);
    for value in ["x".repeat(65_537), String::new()] {
        let refused = admin.post(&secrets, json!({"name": "wrong", "value": value})).await;
        assert_eq!(refused.refused(400, "invalid_request").body["errors"][0]["pointer"], "/value");
    }
    admin.get(&format!("{secrets}/wrong")).await.refused(404, "not_found");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_there_for_its_own_project_and_changed_by_its_admins() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "project_admin");
    let secrets = format!("/v1/projects/{}/secrets", fixture.id("train"));
    let id = admin.post(&secrets, json!({"name": "token", "value": "x"})).await.ok().text_of("id");
    let viewer = fixture.client(&kit, "viewer");
    viewer.get(&format!("{secrets}/token")).await.ok();
    viewer.get(&secrets).await.ok();
    let value = json!({"value": "y"});
    viewer.post(&format!("{secrets}/token/rotate"), value.clone()).await.refused(403, "permission_denied");
    viewer.delete(&format!("{secrets}/token")).await.refused(403, "permission_denied");
    // Platform operators have no access to them.
    let operator = kit.operator();
    operator.get(&format!("{secrets}/token")).await.refused(403, "permission_denied");
    operator.post(&secrets, json!({"name": "mine", "value": "x"})).await.refused(403, "permission_denied");
    let tenant_admin = fixture.client(&kit, "tenant_admin");
    let serve = format!("/v1/projects/{}/secrets", fixture.id("serve"));
    for outsider in ["other_tenant_admin", "sibling_project_admin"] {
        let outsider = fixture.client(&kit, outsider);
        outsider.get(&format!("{secrets}/{id}")).await.refused(404, "not_found");
        outsider.post(&format!("{secrets}/{id}/rotate"), value.clone()).await.refused(404, "not_found");
    }
    // Nor is it reachable through another project with write access.
    for reference in [id.as_str(), "token"] {
        tenant_admin.get(&format!("{serve}/{reference}")).await.refused(404, "not_found");
        let path = format!("{serve}/{reference}/rotate");
        tenant_admin.post(&path, value.clone()).await.refused(404, "not_found");
        tenant_admin.delete(&format!("{serve}/{reference}")).await.refused(404, "not_found");
    }
    assert_eq!(admin.get(&format!("{secrets}/token")).await.ok().body["revision"], 1);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_keys_go_with_their_project() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let project = format!("/v1/projects/{}", fixture.id("train"));
        let issuer = super::issuer(&kit, &fixture).await;
        admin.post(&format!("{project}/secrets"), json!({"name": "token", "value": "x"})).await.ok();
        let key = json!({"name": "build", "public_key": crate::key::P256});
        admin.post(&format!("{project}/keys"), key).await.ok();
        let bootstrap = json!({"purpose": "cluster_bootstrap", "name": "gossip"});
        issuer.post(&format!("{project}/runtime-secrets"), bootstrap).await.ok();
        let refused = admin.delete(&project).await.refused(409, "not_empty");
        for held in ["1 secrets", "1 keys", "1 runtime_secrets"] {
            assert!(refused.text.contains(held), "{held}: {}", refused.text);
        }
        admin.get(&format!("{project}/secrets/token")).await.ok();
        let removed = admin.delete(&format!("{project}?cascade=true")).await.ok();
        for noun in ["secrets", "keys", "runtime_secrets"] {
            assert_eq!(removed.body["removed"][noun], 1, "{}", removed.text);
        }
        // The tenant's cascade includes those of its other projects.
        let serve = format!("/v1/projects/{}", fixture.id("serve"));
        admin.post(&format!("{serve}/secrets"), json!({"name": "token", "value": "x"})).await.ok();
        let key = json!({"name": "build", "public_key": crate::key::P256});
        admin.post(&format!("{serve}/keys"), key).await.ok();
        let path = format!("/v1/tenants/{}?cascade=true", fixture.id("acme"));
        let removed = kit.operator().delete(&path).await.ok();
        assert_eq!(
            (&removed.body["removed"]["secrets"], &removed.body["removed"]["keys"]),
            (&json!(1), &json!(1))
        );
        kit.stop().await;
    }
}
