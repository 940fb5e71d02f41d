//! Publisher keys and a project's trust policy, over HTTP.

use muster_testkit::{Database, Fixture, Kit};
use reqwest::Method;
use serde_json::{Value, json};

/// Public keys without known private keys.
pub(crate) const P256: &str = "-----BEGIN PUBLIC KEY-----\n\
    MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE0v4YN7mdqPdh8oY4/rRArafyYpNG\n\
    s27JOape1Z/ejGzS5tW1dIeY57AZ8hRwgaIKaBELRtHg9HMzkpH2LhmASA==\n\
    -----END PUBLIC KEY-----\n";
pub(crate) const ED25519: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAwIs0pLDd42HBW/NfzGqPHlIpNNQWjn+6IS8CumDUe+A=\n\
    -----END PUBLIC KEY-----\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_trusted_and_revoked_and_each_begins_another_edition() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "project_admin");
        let project = format!("/v1/projects/{}", fixture.id("train"));
        let keys = format!("{project}/keys");
        let edition =
            async || admin.get(&format!("{project}/trust-policy")).await.ok().body["policy"].clone();
        assert_eq!(edition().await, 1);
        let body = json!({"name": "build", "public_key": P256});
        let made = admin.post_with_key(&keys, body.clone(), "k").await.ok();
        assert_eq!(made.body["algorithm"], "ecdsa-p256");
        assert_eq!(made.body["public_key"], P256);
        assert_eq!(
            made.body["fingerprint"],
            "SHA256:5cc5821f5f0e1432ceddb3f54773c49635126b03fdee12ac6cdcb63574645404"
        );
        assert_eq!(edition().await, 2);
        assert_eq!(admin.post_with_key(&keys, body.clone(), "k").await.ok().body, made.body);
        assert_eq!(edition().await, 2, "a replay changes nothing");
        let twice = admin.post(&keys, json!({"name": "again", "public_key": P256})).await;
        assert!(twice.refused(409, "name_taken").text.contains("build"));
        let other = json!({"name": "build", "public_key": ED25519});
        admin.post(&keys, other).await.refused(409, "name_taken");
        assert_eq!(edition().await, 2, "what is refused changes nothing");

        let id = made.text_of("id");
        assert_eq!(admin.get(&format!("{keys}/{id}")).await.ok().body, made.body);
        assert_eq!(admin.get(&format!("{keys}/build")).await.ok().body, made.body);
        let revoked = admin.post(&format!("{keys}/build/revoke"), json!({"reason": "lost"})).await.ok();
        assert_eq!((&revoked.body["revoked_reason"], &revoked.body["version"]), (&json!("lost"), &json!(2)));
        assert_eq!(edition().await, 3);
        let path = format!("{keys}/{id}/revoke");
        admin.post(&path, json!({"reason": "again"})).await.refused(409, "invalid_state");
        let back = admin.post(&keys, json!({"name": "back", "public_key": P256})).await;
        assert!(back.refused(409, "name_taken").text.contains("revoked"), "a revoked key does not come back");
        assert_eq!(edition().await, 3);
        admin.post(&keys, json!({"name": "next", "public_key": ED25519})).await.ok();
        let page = admin.get(&format!("{keys}?page_size=1")).await.ok();
        assert_eq!(page.body["items"][0], revoked.body, "what was trusted is listed too");
        let rest = admin.get(&format!("{keys}?page_token={}", page.text_of("next_page_token"))).await.ok();
        assert_eq!(rest.body["items"][0]["name"], "next");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_public_key_is_refused_without_being_repeated() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "project_admin");
    let project = format!("/v1/projects/{}", fixture.id("train"));
    let private = "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n";
    for key in ["", "ssh-ed25519 AAAA", private, &P256.replace("MFkw", "MFkx"), &format!("{P256}{ED25519}")] {
        let refused = admin.post(&format!("{project}/keys"), json!({"name": "k", "public_key": key})).await;
        let refused = refused.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/public_key");
        assert!(!refused.text.contains("Y2FuYXJ5"), "a private key does not come back: {}", refused.text);
    }
    assert_eq!(admin.get(&format!("{project}/trust-policy")).await.ok().body["policy"], 1);
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_changed_on_the_version_that_was_seen() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "project_admin");
        let path = format!("/v1/projects/{}/trust-policy", fixture.id("train"));
        let first = admin.get(&path).await.ok();
        assert_eq!(first.body["unsigned_up_to"], "staged");
        let set = |version: &str, body: Value| {
            let request = admin.request(Method::PATCH, &path).header("if-match", version).json(&body);
            admin.send(request)
        };
        set("\"2\"", json!({"grace_hours": 0})).await.refused(412, "version_mismatch");
        let changed = set("\"1\"", json!({"unsigned_up_to": "draft", "smoke_to_stage": true})).await.ok();
        let expected = json!({"project_id": fixture.id("train"), "unsigned_up_to": "draft", "smoke_to_stage": true,
                              "grace_hours": first.body["grace_hours"], "policy": 2, "version": 2});
        assert_eq!(changed.body, expected);
        assert_eq!(admin.get(&path).await.ok().body, expected);
        set("\"1\"", json!({"grace_hours": 0})).await.refused(412, "version_mismatch");
        for wrong in
            [json!({"unsigned_up_to": "retired"}), json!({"grace_hours": -1}), json!({"colour": "red"})]
        {
            set("*", wrong).await.refused(400, "invalid_request");
        }
        let viewer = fixture.client(&kit, "viewer");
        viewer.get(&path).await.ok();
        viewer.patch(&path, json!({"grace_hours": 0})).await.refused(403, "permission_denied");
        fixture.client(&kit, "other_tenant_admin").get(&path).await.refused(404, "not_found");
        kit.sealed().await;
        let events = admin.get(&format!("/v1/events?project={}", fixture.id("train"))).await.ok();
        assert!(events.text.contains("dev.muster.trust_policy.changed"), "{}", events.text);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_there_for_its_own_project_and_changed_by_its_admins() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let keys = format!("/v1/projects/{}/keys", fixture.id("train"));
    let body = json!({"name": "build", "public_key": P256});
    let viewer = fixture.client(&kit, "viewer");
    viewer.post(&keys, body.clone()).await.refused(403, "permission_denied");
    let admin = fixture.client(&kit, "tenant_admin");
    let id = admin.post(&keys, body.clone()).await.ok().text_of("id");
    viewer.get(&format!("{keys}/{id}")).await.ok();
    let reason = json!({"reason": "x"});
    viewer.post(&format!("{keys}/{id}/revoke"), reason.clone()).await.refused(403, "permission_denied");
    let outsider = fixture.client(&kit, "other_tenant_admin");
    outsider.get(&format!("{keys}/{id}")).await.refused(404, "not_found");
    outsider.post(&format!("{keys}/{id}/revoke"), reason.clone()).await.refused(404, "not_found");
    let serve = format!("/v1/projects/{}/keys", fixture.id("serve"));
    for reference in [id.as_str(), "build"] {
        admin.get(&format!("{serve}/{reference}")).await.refused(404, "not_found");
        admin.post(&format!("{serve}/{reference}/revoke"), reason.clone()).await.refused(404, "not_found");
    }
    // Each project decides for itself: the same key under the same name.
    admin.post(&serve, body).await.ok();
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_trusts_a_bounded_number_of_keys() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "project_admin");
        let keys = format!("/v1/projects/{}/keys", fixture.id("train"));
        let key = |name: String| {
            let public = muster_trust::PrivateKey::generate().public().to_pem();
            admin.post(&keys, json!({"name": name, "public_key": public}))
        };
        for number in 0..50 {
            key(format!("key-{number}")).await.ok();
        }
        let refused = key("surplus".to_owned()).await.refused(409, "quota_exceeded");
        assert!(refused.text.contains("revoke one first"), "{}", refused.text);
        // A revoked key makes place.
        admin.post(&format!("{keys}/key-7/revoke"), json!({"reason": "old"})).await.ok();
        key("surplus".to_owned()).await.ok();
        key("another".to_owned()).await.refused(409, "quota_exceeded");
        kit.stop().await;
    }
}
