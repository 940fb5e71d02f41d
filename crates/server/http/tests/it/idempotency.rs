//! A command is executed once, however often it is sent and whatever is lost in transit.

use muster_db::Fault;
use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;

use crate::property;

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_replays_and_another_body_is_refused() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        let first = operator.post_with_key("/v1/tenants", json!({"slug": "acme"}), "k1").await.ok();
        let again = operator.post_with_key("/v1/tenants", json!({"slug": "acme"}), "k1").await.ok();
        assert_eq!((first.status, &first.body), (again.status, &again.body));
        assert_eq!(
            (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
            ("", "true")
        );
        assert_eq!(again.header("etag"), "\"1\"");
        operator
            .post_with_key("/v1/tenants", json!({"slug": "other"}), "k1")
            .await
            .refused(422, "idempotency_key_reused");
        // The same key on another path is another key.
        operator.post_with_key("/v1/tenants/acme/projects", json!({"name": "p"}), "k1").await.ok();
        let request = operator.request(reqwest::Method::POST, "/v1/tenants").json(&json!({"slug": "x"}));
        operator.send(request).await.refused(400, "idempotency_key_required");
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_its_actor() {
    let kit = Kit::sqlite().await;
    let fixture = Fixture::build(&kit).await;
    let body = json!({"name": "shared"});
    let mine = fixture.client(&kit, "tenant_admin").post_with_key("/v1/tokens", body.clone(), "k").await.ok();
    let theirs = fixture.client(&kit, "other_tenant_admin").post_with_key("/v1/tokens", body, "k").await.ok();
    assert_ne!(mine.text_of("id"), theirs.text_of("id"));
    assert_eq!(theirs.header("idempotency-replayed"), "");
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_secret_is_not_stored() {
    let kit = Kit::sqlite().await;
    let operator = kit.operator();
    let first = operator.post_with_key("/v1/tokens", json!({"name": "t"}), "k").await.ok();
    let again = operator.post_with_key("/v1/tokens", json!({"name": "t"}), "k").await.ok();
    assert!(first.text_of("secret").starts_with("mst_pat_"));
    assert!(again.body["secret"].is_null());
    assert_eq!(again.body["secret_shown_once"], true);
    assert_eq!(first.body["id"], again.body["id"]);
    let actor = operator_id(&kit).await;
    let stored = kit.store().replay_lookup(&actor, "POST /v1/tokens", "k", jiff::Timestamp::UNIX_EPOCH);
    let stored = stored.await.unwrap().unwrap();
    assert!(!stored.body.contains(&first.text_of("secret")));
    kit.stop().await;
}

async fn operator_id(kit: &Kit) -> String {
    kit.operator().get("/v1/whoami").await.ok().text_of("id")
}

#[tokio::test(flavor = "multi_thread")]
async fn command_with_a_lost_commit_acknowledgement_returns_its_outcome() {
    for database in Database::both() {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        kit.store().faults().arm(Fault::UnheardCommit);
        // A background task may commit first; then the fault hit that one, and the command succeeds untouched.
        let made = operator.post_with_key("/v1/tenants", json!({"slug": "acme"}), "k").await;
        assert_eq!(made.status, 201, "{}", made.text);
        let again = operator.post_with_key("/v1/tenants", json!({"slug": "acme"}), "k").await.ok();
        assert_eq!(again.body["id"], made.body["id"]);
        let listed = operator.get("/v1/tenants").await.ok();
        assert_eq!(listed.body["items"].as_array().unwrap().len(), 1);
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_at_any_statement_leaves_nothing_and_the_repeat_succeeds() {
    // SQLite inserts the command pipeline's rows one by one.
    let statements = ["IDEMPOTENCY_INSERT", "RECORD_COMMAND"];
    for (database, insert) in Database::both().into_iter().zip(statements) {
        let kit = Kit::start(database, 1).await;
        let operator = kit.operator();
        kit.sealed().await;
        // All statements of the command, by name: background tasks write concurrently and must not be hit instead.
        for (n, statement) in ["TENANT_INSERT", "SEALING_KEY_INSERT", insert].into_iter().enumerate() {
            let slug = format!("tenant-{n}");
            let before = kit.store().faults().struck();
            kit.store().faults().arm(Fault::FailBefore(statement));
            let first = operator.post_with_key("/v1/tenants", json!({"slug": slug}), &slug).await;
            assert_eq!((first.status, kit.store().faults().struck()), (503, before + 1), "{statement}");
            operator.get(&format!("/v1/tenants/{slug}")).await.refused(404, "not_found");
            operator.post_with_key("/v1/tenants", json!({"slug": slug}), &slug).await.ok();
        }
        property::audited(&kit, &operator, "tenant-1", 3).await.unwrap();
        kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_parallel_repeats_of_two_hundred_keys_over_two_replicas_make_two_hundred_things() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let token = kit.operator_token.clone();
    property::idempotent(&kit, &token, 200, 50).await.unwrap();
    kit.stop().await;
}
