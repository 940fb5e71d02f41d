//! One artifact supersedes another: both change in one transaction, and both changes emit an event.

use muster_testkit::Database;
use serde_json::json;

use super::Shelf;
use crate::registry::Image;

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_active_artifact_deprecates_the_old_one_of_its_line() {
    for database in Database::both() {
        let shelf = Shelf::new(database).await;
        shelf.rules(json!({"unsigned_up_to": "active", "grace_hours": 24})).await;
        let (old, new) = (shelf.pushed("old").await, shelf.pushed("new").await);
        shelf.brought(&old, "active").await;
        shelf.brought(&new, "canary").await;
        assert_eq!(shelf.state(&old).await, "active", "a canary takes nobody's place");
        let body = json!({"to": "active", "reason": "it is better"});
        let promoted = shelf.admin.post(&format!("{}/promote", shelf.path(&new)), body).await.ok();
        let shown = shelf.shown(&old).await;
        assert_eq!((&shown["state"], &shown["superseded_by"]), (&json!("deprecated"), &json!(new)));
        assert!(shown["retirable_at"].is_string(), "{shown:#}");
        // Both have an event, with the same correlation id, and a history entry.
        let told = shelf.events(&old).await;
        let (word, data) = told.last().unwrap();
        assert_eq!(
            (word.as_str(), &data["before"], &data["after"]),
            ("artifact.changed", &json!("active"), &json!("deprecated"))
        );
        let (_, data) = shelf.events(&new).await.pop().unwrap();
        assert_eq!((&data["before"], &data["after"]), (&json!("canary"), &json!("active")));
        for (id, before, after) in [(&old, "active", "deprecated"), (&new, "canary", "active")] {
            let found = shelf.admin.get(&format!("{}/references", shelf.path(id))).await.ok().body;
            let last = found["changes"].as_array().unwrap().last().unwrap().clone();
            assert_eq!((&last["before"], &last["after"]), (&json!(before), &json!(after)));
            assert_eq!(last["actor_id"], json!(shelf.fixture.id("project_admin")));
        }
        let found = shelf.admin.get(&format!("{}/references", shelf.path(&new))).await.ok().body;
        assert_eq!(found["supersedes"], json!([old]));
        // The command is audited with the same correlation id as both events.
        let thread = promoted.header("x-correlation-id").to_owned();
        let records = shelf.audited("artifact.promote").await;
        let of_it: Vec<_> =
            records.iter().filter(|record| record["correlation_id"] == json!(thread)).collect();
        assert_eq!(of_it.len(), 1);
        let detail = &of_it[0]["detail"];
        assert_eq!(
            (&detail["before"], &detail["after"], &detail["reason"]),
            (&json!("canary"), &json!("active"), &json!("it is better"))
        );
        // A deprecated artifact cannot be promoted to active again.
        shelf.promote(&old, "active").await.refused(409, "invalid_state");
        shelf.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_and_repositories_do_not_touch_each_other() {
    let shelf = Shelf::new(Database::sqlite()).await;
    shelf.rules(json!({"unsigned_up_to": "active"})).await;
    let first = shelf.pushed("one").await;
    shelf.brought(&first, "active").await;
    let edge = Image::of("edge");
    shelf.remote.push("edge", &edge).await.is(201);
    let body = json!({"repository": "base", "reference": "edge", "line": "edge"});
    let second = shelf.admin.post(&format!("{}/artifacts", shelf.base), body).await.ok().text_of("id");
    shelf.brought(&second, "active").await;
    let other = shelf.remote.named("acme.train/other");
    other.push("one", &Image::of("one")).await.is(201);
    shelf.brought("other:one", "active").await;
    for reference in [first.as_str(), &second, "other:one"] {
        assert_eq!(shelf.state(reference).await, "active");
    }
    shelf.kit.stop().await;
}

/// Many canaries of one release line are promoted to active concurrently: exactly one is active at the end, and the
/// others were before or are not yet.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_would_be_active_at_once_one_is() {
    for database in Database::both() {
        let shelf = Shelf::new(database).await;
        shelf.rules(json!({"unsigned_up_to": "active"})).await;
        let mut ids = Vec::new();
        for n in 0..6 {
            let id = shelf.pushed(&format!("n{n}")).await;
            shelf.brought(&id, "canary").await;
            ids.push(id);
        }
        let answers = futures::future::join_all(ids.iter().map(|id| shelf.promote(id, "active"))).await;
        let mut states = std::collections::BTreeMap::new();
        for (id, answer) in ids.iter().zip(&answers) {
            let state = shelf.state(id).await;
            match answer.status {
                200 => assert!(state == "active" || state == "deprecated", "{state}"),
                _ => {
                    assert_eq!((answer.status, answer.code()), (409, "invalid_state"), "{}", answer.text);
                    assert_eq!(state, "canary");
                }
            }
            *states.entry(state).or_insert(0) += 1;
        }
        assert_eq!(states.get("active"), Some(&1), "{states:?}");
        shelf.kit.stop().await;
    }
}
