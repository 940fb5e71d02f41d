//! A request with a secret may fail for any reason: no response and no audit entry repeats the secret.

use muster_testkit::{Fixture, Kit};
use reqwest::Method;
use serde_json::{Value, json};

const CANARY: &str = "c4n4ry-in-a-request";

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_does_not_come_back() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "project_admin");
    let secrets = format!("/v1/projects/{}/secrets", fixture.id("train"));
    admin.post(&secrets, json!({"name": "token", "value": "x"})).await.ok();
    let rotate = format!("{secrets}/token/rotate");
    let long = format!("{CANARY}{}", "x".repeat(140_000));
    let wrong: Vec<(&str, Value)> = vec![
        ("wrong type: a list", json!({"value": [CANARY]})),
        ("wrong type: an object", json!({"value": {"inside": CANARY}})),
        ("too long for the document", json!({"value": long})),
        ("too long for us", json!({"value": CANARY.repeat(4_000)})),
        ("an unknown field beside it", json!({"value": CANARY, "unknown": CANARY})),
        ("the wrong field", json!({"content": CANARY})),
        ("the wrong encoding", json!({"value": CANARY, "encoding": CANARY})),
        ("not base64", json!({"value": format!("{CANARY}!"), "encoding": "base64"})),
        ("a NUL", json!({"value": format!("{CANARY}\u{0}")})),
        ("no object", json!([CANARY])),
        ("a bare text", json!(CANARY)),
    ];
    for (what, body) in wrong {
        for path in [&secrets, &rotate] {
            let mut body = body.clone();
            if path == &secrets
                && let Some(body) = body.as_object_mut()
            {
                body.insert("name".to_owned(), json!("fresh"));
            }
            let refused = admin.post(path, body).await.refused(400, "invalid_request");
            assert!(!refused.text.contains("c4n4ry"), "{what}: {}", refused.text);
        }
    }
    for body in [
        format!("{{\"value\": \"{CANARY}"),
        format!("{{\"value\": {CANARY}}}"),
        format!("{{\"value\": \"{CANARY}\",}}"),
        format!("{{\"value\": \"{CANARY}\\x\"}}"),
        format!("{{\"value\": \"{CANARY}\"}} {CANARY}"),
        format!("value={CANARY}"),
    ] {
        let request = admin.request(Method::POST, &secrets).header("idempotency-key", "k");
        let request = request.header("content-type", "application/json").body(body);
        let refused = admin.send(request).await.refused(400, "malformed_request");
        assert!(!refused.text.contains("c4n4ry"), "{}", refused.text);
    }
    // Refusals for other reasons: a taken name, a missing permission, an absent project.
    let body = json!({"name": "token", "value": CANARY});
    assert!(!admin.post(&secrets, body.clone()).await.refused(409, "name_taken").text.contains("c4n4ry"));
    let viewer = fixture.client(&kit, "viewer");
    assert!(
        !viewer.post(&secrets, body.clone()).await.refused(403, "permission_denied").text.contains("c4n4ry")
    );
    assert!(
        !admin
            .post(&format!("{secrets}/none/rotate"), json!({"value": CANARY}))
            .await
            .text
            .contains("c4n4ry")
    );
    kit.sealed().await;
    let tenant_admin = fixture.client(&kit, "tenant_admin");
    let entries = tenant_admin.get("/v1/audit?tenant=acme&page_size=200").await.ok();
    assert!(entries.text.contains("secret.create"), "refusals are audited: {}", entries.text);
    assert!(!entries.text.contains("c4n4ry"), "{}", entries.text);
    kit.stop().await;
}

/// Errors for other shapes repeat the value: silence is only for those with secrets.
#[tokio::test(flavor = "multi_thread")]
async fn other_requests_are_told_what_was_wrong() {
    let kit = Kit::sqlite().await;
    let refused = kit.operator().post("/v1/tenants", json!({"slug": "Not A Slug"})).await;
    assert!(refused.refused(400, "invalid_request").text.contains("Not A Slug"));
    kit.stop().await;
}
