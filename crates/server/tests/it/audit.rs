//! The audit: refusals are in it, floods are counted, secrets are not, and retention keeps the chain whole.

use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;
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
        // The rest is counted, and told when the minute is over.
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
        // The scan itself works: what is no secret is found.
        if file == "muster.db" {
            assert!(bytes.windows(14).any(|window| window == b"s@acme.example"));
        }
    }
    assert!(scanned > 10_000);
    // Nor does a plain hash of a request that carried one: it could be guessed at leisure.
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
        let fixture = Fixture::build(&kit).await;
        let admin = fixture.client(&kit, "tenant_admin");
        property::gapless(&kit, &admin, "acme", 20, "held").await.unwrap();
        let held = kit.store().meter().longest_held();
        assert!(held.as_millis() < 50, "a transaction was held for {held:?} outside the database");
        kit.stop().await;
    }
}
