//! Every promotion rule, over HTTP.

use muster_testkit::Database;
use muster_trust::PrivateKey;
use serde_json::json;

use super::{Shelf, sign, sign_by_tag};
use crate::registry::{Image, MANIFEST, descriptor};

const STATES: [&str; 6] = ["draft", "staged", "canary", "active", "deprecated", "retired"];

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_takes_the_steps_that_there_are_and_no_other() {
    for database in Database::both() {
        let shelf = Shelf::new(database).await;
        shelf.rules(json!({"unsigned_up_to": "active", "grace_hours": 0})).await;
        let id = shelf.pushed("one").await;
        let forward = [("draft", "staged"), ("staged", "canary"), ("canary", "active")];
        let back = [
            ("draft", "retired"),
            ("staged", "retired"),
            ("canary", "staged"),
            ("active", "deprecated"),
            ("deprecated", "retired"),
        ];
        let way = ["draft", "staged", "canary", "staged", "canary", "active", "deprecated", "retired"];
        for (at, state) in way.iter().enumerate() {
            assert_eq!(shelf.state(&id).await, *state);
            for to in STATES {
                if !forward.contains(&(*state, to)) {
                    shelf.promote(&id, to).await.refused(409, "invalid_state");
                }
                if !back.contains(&(*state, to)) {
                    shelf.demote(&id, to).await.refused(409, "invalid_state");
                }
            }
            let Some(next) = way.get(at + 1) else { break };
            let stepped = if forward.contains(&(*state, *next)) {
                shelf.promote(&id, next).await.ok()
            } else {
                shelf.demote(&id, next).await.ok()
            };
            assert_eq!(stepped.text_of("state"), *next);
            assert_eq!(
                stepped.body["canary_percent"],
                if *next == "canary" { json!(10) } else { json!(null) }
            );
        }
        // An artifact that was never offered can be retired immediately.
        for (content, is_staged) in [("two", false), ("three", true)] {
            let id = shelf.pushed(content).await;
            if is_staged {
                shelf.promote(&id, "staged").await.ok();
            }
            assert_eq!(shelf.demote(&id, "retired").await.ok().text_of("state"), "retired");
        }
        shelf.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_artifact_is_promoted_only_as_far_as_policy_allows() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let id = shelf.pushed("one").await;
    // By default up to staged.
    shelf.brought(&id, "staged").await;
    let refused = shelf.promote(&id, "canary").await.refused(409, "untrusted");
    assert!(refused.text.contains("staged at most"), "{}", refused.text);
    shelf.rules(json!({"unsigned_up_to": "canary"})).await;
    shelf.promote(&id, "canary").await.ok();
    shelf.promote(&id, "active").await.refused(409, "untrusted");
    shelf.rules(json!({"unsigned_up_to": "draft"})).await;
    shelf.promote(&id, "active").await.refused(409, "untrusted");
    shelf.demote(&id, "staged").await.ok();
    let other = shelf.pushed("two").await;
    shelf.promote(&other, "staged").await.refused(409, "untrusted");
    shelf.rules(json!({"unsigned_up_to": "active"})).await;
    shelf.brought(&other, "active").await;
    shelf.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_counts_while_its_key_does() {
    for database in Database::both() {
        let shelf = Shelf::new(database).await;
        shelf.rules(json!({"unsigned_up_to": "draft"})).await;
        let (key, key_id) = shelf.key("build").await;
        let id = shelf.pushed("one").await;
        let image = Image::of("one");
        shelf.promote(&id, "staged").await.refused(409, "untrusted");
        // An unknown signature is worse than none: not even a lenient project accepts it.
        sign(&shelf.remote, &PrivateKey::generate(), &image).await;
        shelf.rules(json!({"unsigned_up_to": "active"})).await;
        shelf.promote(&id, "staged").await.refused(409, "untrusted");
        let looked = shelf.admin.post(&format!("{}/verify", shelf.path(&id)), json!({})).await.ok();
        assert_eq!(
            (&looked.body["verdict"]["trust"], &looked.body["verdict"]["reason"]),
            (&json!("untrusted"), &json!("other_key"))
        );
        // A signature of another image does not count.
        sign(&shelf.remote, &key, &Image::of("another")).await;
        shelf.promote(&id, "staged").await.refused(409, "untrusted");
        sign(&shelf.remote, &key, &image).await;
        let staged = shelf.promote(&id, "staged").await.ok();
        assert_eq!(
            (&staged.body["verdict"]["trust"], &staged.body["verdict"]["key_id"]),
            (&json!("trusted"), &json!(key_id))
        );
        shelf.promote(&id, "canary").await.ok();
        shelf.revoke(&key_id).await;
        let refused = shelf.promote(&id, "active").await.refused(409, "untrusted");
        assert!(refused.text.contains("revoked"), "{}", refused.text);
        assert_eq!(shelf.state(&id).await, "canary");
        // Another key's signature, in the older form, allows the promotion.
        let (other, other_id) = shelf.key("release").await;
        sign_by_tag(&shelf.remote, &other, &image).await;
        let active = shelf.promote(&id, "active").await.ok();
        assert_eq!(active.body["verdict"]["key_id"], json!(other_id));
        shelf.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_keeps_what_no_node_could_use_from_being_staged() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let (layer, config) =
        (b"files".to_vec(), json!({"os": "linux", "architecture": "amd64"}).to_string().into_bytes());
    for bytes in [&layer, &config] {
        shelf.remote.blob(bytes).await.is(201);
    }
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
    });
    shelf.remote.manifest("bad", manifest.to_string().as_bytes()).await.is(201);
    let refused = shelf.promote("base:bad", "staged").await.refused(409, "lint_failed");
    assert!(refused.text.contains("layers_differ"), "{}", refused.text);
    let said = shelf.admin.get(&format!("{}/references", shelf.path("base:bad"))).await.ok().body;
    let errors = said["lint"].as_array().unwrap().iter().filter(|finding| finding["error"] == true);
    assert!(errors.count() >= 1);
    shelf.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_is_a_canarys_and_what_is_asked_is_checked() {
    let shelf = Shelf::new(Database::sqlite()).await;
    shelf.rules(json!({"unsigned_up_to": "active"})).await;
    let id = shelf.pushed("one").await;
    let promote = format!("{}/promote", shelf.path(&id));
    let ask = async |body| shelf.admin.post(&promote, body).await;
    let refused =
        ask(json!({"to": "staged", "reason": "x", "percent": 5})).await.refused(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/percent");
    ask(json!({"to": "staged"})).await.refused(400, "invalid_request");
    ask(json!({"to": "staged", "reason": ""})).await.refused(400, "invalid_request");
    ask(json!({"to": "elsewhere", "reason": "x"})).await.refused(400, "invalid_request");
    ask(json!({"to": "staged", "reason": "x", "smoke_cell": "never"})).await.refused(400, "invalid_request");
    ask(json!({"to": "staged", "reason": "x"})).await.ok();
    for percent in [0, 101, -1] {
        ask(json!({"to": "canary", "reason": "x", "percent": percent})).await.refused(400, "invalid_request");
    }
    let canary = ask(json!({"to": "canary", "reason": "x", "percent": 100})).await.ok();
    assert_eq!(canary.body["canary_percent"], 100);
    shelf.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_step_is_written_down_with_who_what_and_why() {
    for database in Database::both() {
        let shelf = Shelf::new(database).await;
        let id = shelf.pushed("one").await;
        let promote = format!("{}/promote", shelf.path(&id));
        let body = json!({"to": "staged", "reason": "it passed the night"});
        let first = shelf.admin.post_with_key(&promote, body.clone(), "once").await.ok();
        let again = shelf.admin.post_with_key(&promote, body, "once").await.ok();
        assert_eq!(first.body, again.body, "the second is the first's answer");
        let other = json!({"to": "canary", "reason": "x"});
        shelf.admin.post_with_key(&promote, other, "once").await.refused(422, "idempotency_key_reused");
        shelf
            .fixture
            .client(&shelf.kit, "viewer")
            .post(&promote, json!({"to": "canary", "reason": "x"}))
            .await
            .refused(403, "permission_denied");
        let records = shelf.audited("artifact.promote").await;
        let done: Vec<_> = records.iter().filter(|record| record["outcome"] == "succeeded").collect();
        assert_eq!(done.len(), 1, "{records:#?}");
        let detail = &done[0]["detail"];
        assert_eq!((&detail["before"], &detail["after"]), (&json!("draft"), &json!("staged")));
        assert_eq!(
            (&detail["reason"], &detail["trust"]),
            (&json!("it passed the night"), &json!("unsigned"))
        );
        assert_eq!(done[0]["actor"]["id"], json!(shelf.fixture.id("project_admin")));
        assert_eq!(done[0]["target"]["id"], json!(id));
        assert!(records.iter().any(|record| record["outcome"] == "denied"
            && record["actor"]["id"] == json!(shelf.fixture.id("viewer"))));
        let told = shelf.events(&id).await;
        let changes: Vec<_> = told.iter().filter(|(word, _)| word == "artifact.changed").collect();
        assert_eq!(changes.len(), 1);
        assert_eq!((&changes[0].1["before"], &changes[0].1["after"]), (&json!("draft"), &json!("staged")));
        let history = shelf.admin.get(&format!("{}/references", shelf.path(&id))).await.ok().body;
        let last = history["changes"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(
            (&last["before"], &last["after"], &last["reason"]),
            (&json!("draft"), &json!("staged"), &json!("it passed the night"))
        );
        assert_eq!(last["actor_id"], json!(shelf.fixture.id("project_admin")));
        let pushed = shelf.audited("manifest.push").await;
        assert_eq!(pushed.len(), 1, "the push is a command too");
        shelf.kit.stop().await;
    }
}
