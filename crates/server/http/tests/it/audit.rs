//! The audit log contains refusals, counts floods, contains no secrets, and its chain survives retention.

use base64::Engine as _;
use muster_testkit::{Database, Fixture, Kit};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::property;

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_audited_in_the_actors_chain_and_floods_are_counted() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let viewer = fixture.client(&kit, "viewer");
        for _ in 0..10 {
            let body = json!({"name": "x", "permissions": []});
            viewer
                .post(&format!("/v1/projects/{}/service-accounts", fixture.id("train")), body)
                .await
                .refused(403, "permission_denied");
        }
        fixture
            .client(&kit, "anonymous")
            .post("/v1/tenants", json!({"slug": "x"}))
            .await
            .refused(401, "unauthenticated");
        kit.sealed().await;
        let admin = fixture.client(&kit, "tenant_admin");
        let path = format!("/v1/audit?tenant=acme&actor={}", fixture.id("viewer"));
        let entries = admin.get(&path).await.ok().body["items"].as_array().unwrap().clone();
        assert!(
            (1..=2).contains(&entries.len()),
            "ten in one minute are one line, or two over its turn: {entries:?}"
        );
        assert_eq!(entries[0]["record"]["outcome"], "denied");
        assert_eq!(entries[0]["record"]["code"], "permission_denied");
        // The rest is counted, and emitted when the minute ends.
        let mut tx = kit.store().begin().await.unwrap();
        let counted = tx.refusal_take(i64::MAX).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(counted.iter().map(|(count, _)| count).sum::<i64>(), 10);
        property::chain(&admin, "acme").await.unwrap();
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_reaches_a_row_event_or_entry() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    let password = "a very secret password 1";
    admin
        .post("/v1/users", json!({"email": "s@acme.example", "tenant": "acme", "password": password}))
        .await
        .ok();
    let token = admin.post("/v1/tokens", json!({"name": "t"})).await.ok().text_of("secret");
    let hook = json!({"name": "h", "tenant": "acme", "url": "http://127.0.0.1:9/"});
    let signing = admin.post("/v1/webhooks", hook).await.ok().text_of("secret");
    kit.sealed().await;
    let folder = kit.database.folder();
    let database = kit.database.clone();
    kit.stop().await;
    let mut scanned = 0;
    for file in ["muster.db", "muster.db-wal"] {
        let Ok(bytes) = std::fs::read(folder.join(file)) else { continue };
        scanned += bytes.len();
        for secret in [password, token.as_str(), signing.trim_start_matches("whsec_")] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{file} holds a secret in clear");
        }
        // Sanity check of the scan: non-secret text is found.
        if file == "muster.db" {
            assert!(bytes.windows(14).any(|window| window == b"s@acme.example"));
        }
    }
    assert!(scanned > 10_000);
    // Nor is there a plain hash of a request with a password: it could be brute-forced offline.
    let request = json!({"email": "s@acme.example", "tenant": "acme", "password": password}).to_string();
    for hash in [Sha256::digest(format!("\0{request}")), Sha256::digest(&request)] {
        let bytes = std::fs::read(folder.join("muster.db")).unwrap();
        assert!(
            !bytes.windows(32).any(|window| window == hash.as_slice()),
            "a plain hash of a request is kept"
        );
    }
    drop(database);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_keeps_the_link_to_what_it_removed() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        let before = admin.get("/v1/audit/head?tenant=acme").await.ok();
        let mut tx = kit.store().begin().await.unwrap();
        assert!(tx.sweep_audit(jiff::Timestamp::MAX).await.unwrap() > 5);
        tx.commit().await.unwrap();
        admin.post("/v1/tenants/acme/projects", json!({"name": "after"})).await.ok();
        kit.sealed().await;
        let head = admin.get("/v1/audit/head?tenant=acme").await.ok();
        assert_eq!(head.body["pruned_hash"], before.body["hash"]);
        assert_eq!(head.body["pruned_sequence"], before.body["sequence"]);
        let export = admin.get("/v1/audit/export?tenant=acme").await.ok();
        let first: serde_json::Value = serde_json::from_str(export.text.lines().next().unwrap()).unwrap();
        assert_eq!(
            first["previous_hash"], before.body["hash"],
            "the first kept entry builds on the last removed one"
        );
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_held_for_less_than_fifty_milliseconds() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        kit.store().meter().start();
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        property::gapless(&kit, &admin, "acme", 20, "held").await.unwrap();
        let held = kit.store().meter().longest_held();
        assert!(held.as_millis() < 50, "a transaction was held for {held:?} outside the database");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_audited_with_what_was_there_before() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    let account = format!(
        "/v1/projects/{}/service-accounts/{}",
        fixture.id("train"),
        fixture.id("account_without_grant")
    );
    admin.patch(&account, json!({"permissions": ["project.get"], "labels": {"a": "b"}})).await.ok();
    admin.patch(&account, json!({"permissions": ["project.list"]})).await.ok();
    let quota = format!("/v1/projects/{}/quota", fixture.id("train"));
    kit.operator().patch(&quota, json!({"max_gpus": 8})).await.ok();
    kit.operator().patch(&quota, json!({"unlimited": ["gpus"]})).await.ok();
    admin.patch(&format!("/v1/webhooks/{}", fixture.id("hook")), json!({"enabled": false})).await.ok();
    admin.patch("/v1/tenants/acme", json!({"display_name": "New"})).await.ok();
    kit.sealed().await;
    let details = async |action: &str| {
        let found = admin.get(&format!("/v1/audit?tenant=acme&action={action}")).await.ok();
        let items = found.body["items"].as_array().unwrap().clone();
        items.iter().map(|entry| entry["record"]["detail"].clone()).collect::<Vec<_>>()
    };
    let accounts = details("service_account.update").await;
    assert_eq!(accounts[0]["before"], json!({"permissions": [], "labels": {}}));
    assert_eq!(accounts[1]["changed"], json!({"permissions": ["project.list"]}));
    assert_eq!(accounts[1]["before"], json!({"permissions": ["project.get"]}));
    let quotas = details("quota.set").await;
    assert_eq!(
        (&quotas[0]["changed"], &quotas[0]["before"]),
        (&json!({"max_gpus": 8}), &json!({"max_gpus": null}))
    );
    assert_eq!(quotas[1]["before"]["max_gpus"], 8, "{quotas:?}");
    assert_eq!(details("webhook.update").await[0]["before"], json!({"enabled": true}));
    assert_eq!(details("tenant.update").await[0]["before"]["display_name"], "acme");
    kit.stop().await;
}

#[tokio::test]
async fn heads_are_signed_with_a_key_outside_the_database_and_kept_where_the_operator_says() {
    let database = Database::sqlite();
    let (kept, public) = (database.folder().join("heads"), database.folder().join("audit.key.pub"));
    let settings = [("audit.heads_to", kept.to_str().unwrap()), ("audit.heads_every_seconds", "1")];
    let kit = Kit::start_with(database, 1, &settings).await;
    kit.operator().post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    kit.sealed().await;
    let head = kit.operator().get("/v1/audit/head?tenant=acme").await.ok().body;
    let key = muster_trust::PublicKey::from_pem(&std::fs::read_to_string(public).unwrap()).unwrap();
    let is_signed = |head: &Value| {
        let text = |name: &str| head[name].as_str().unwrap().to_owned();
        let (chain, hash, at) = (text("chain"), text("hash"), text("signed_at"));
        let statement = format!("muster-audit-head v1\n{chain}\n{}\n{hash}\n{at}\n", head["sequence"]);
        let signature = base64::engine::general_purpose::STANDARD.decode(text("signature")).unwrap();
        text("key_id") == key.fingerprint() && key.verify(statement.as_bytes(), &signature)
    };
    assert!(is_signed(&head), "{head:#}");
    let line = until(async || {
        let lines = std::fs::read_to_string(&kept).unwrap_or_default();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.into_iter().find(|line| line["hash"] == head["hash"])
    })
    .await;
    assert!(is_signed(&line), "{line:#}");
    assert_eq!((&line["chain"], &line["sequence"]), (&head["chain"], &head["sequence"]));
    let lines = std::fs::read_to_string(&kept).unwrap();
    assert!(lines.contains(r#""chain":"platform""#), "every chain that has grown: {lines}");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_posted_to_a_url_and_again_after_a_failure() {
    let (url, received) = crate::webhook::receiver(1).await;
    let settings = [("audit.heads_to", url.as_str()), ("audit.heads_every_seconds", "1")];
    let kit = Kit::start_with(Database::sqlite(), 1, &settings).await;
    kit.operator().post("/v1/tenants", json!({"slug": "acme"})).await.ok();
    kit.sealed().await;
    let head = kit.operator().get("/v1/audit/head?tenant=acme").await.ok().body;
    let posted = until(async || {
        let posts: Vec<String> = received.lock().iter().skip(1).map(|post| post.body.clone()).collect();
        let lines = posts.iter().flat_map(|post| post.lines());
        let mut heads = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        heads.find(|line| line["hash"] == head["hash"])
    })
    .await;
    for member in ["chain", "sequence", "key_id"] {
        assert_eq!(posted[member], head[member]);
    }
    assert!(posted["signature"].is_string(), "{posted:#}");
    kit.stop().await;
}

/// Polls until there is a result, for at most half a minute.
async fn until<T>(look: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("nothing was found within half a minute");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_ends_within_five_seconds_of_its_right() {
    use futures::{StreamExt as _, TryStreamExt as _};
    use muster_control::{AnswerSlot, Cx, audit};

    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let admin = fixture.client(&kit, "tenant_admin");
    // More entries than one chunk has.
    let accounts = format!("/v1/projects/{}/service-accounts", fixture.id("train"));
    let made = futures::stream::iter(0..600)
        .map(|number| admin.post(&accounts, json!({"name": format!("a{number}"), "permissions": []})));
    for answer in made.buffer_unordered(8).collect::<Vec<_>>().await {
        answer.ok();
    }
    kit.sealed().await;
    let platform = &kit.servers[0].platform;
    let opened = async |token: &str| {
        let now = platform.env.now();
        let cx = Cx {
            platform: platform.clone(),
            actor: Some(platform.authenticate(token, now).await.unwrap()),
            correlation_id: "c".to_owned(),
            now,
            if_match: None,
            address: None,
            answer_slot: AnswerSlot::default(),
        };
        let query = serde_json::from_value(json!({"tenant": "acme"})).unwrap();
        let mut lines = Box::pin(audit::export(&cx, query).await.unwrap());
        lines.try_next().await.unwrap().expect("a first chunk");
        lines
    };
    let issued = admin.post("/v1/tokens", json!({"name": "short"})).await.ok();
    let mut revoked = opened(&issued.text_of("secret")).await;
    let mut valid = opened(fixture.token("tenant_admin")).await;
    admin.post(&format!("/v1/tokens/{}/revoke", issued.text_of("id")), json!({})).await.ok();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let problem = revoked.try_next().await.map(drop).expect_err("its right is over");
    assert_eq!(problem.code, muster_api::Code::Unauthenticated);
    valid.try_next().await.unwrap().expect("the other goes on");
    kit.stop().await;
}
