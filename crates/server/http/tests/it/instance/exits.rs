//! Force always gives a way out: of a replacement blocked in its second half, and of a blocked removal. Neither leaves a
//! member, a cell or an allocation behind, nor a wrong count.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Good, Stage};
use crate::cell::until;

/// Completes steps of this verb by hand, and gives the others back, until `done`.
async fn complete(stage: &Stage, verb: &str, done: impl AsyncFn() -> bool) {
    until("the adapter's part is done", async || {
        for step in stage.lease(0).await {
            let generation = step["step"]["generation"].as_i64().unwrap();
            if step["step"]["verb"] == verb {
                stage.say(&step, "complete", generation, json!({"message": "done"})).await.ok();
            } else {
                let later = json!({"reason": "busy", "message": "not yet", "retry_after_seconds": 1});
                stage.say(&step, "fail", generation, later).await.ok();
            }
        }
        done().await
    })
    .await;
}

async fn heads(stage: &Stage) -> Vec<Value> {
    let members = stage.members().await.into_iter();
    members.filter(|member| member["component_key"] == "head").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_order_over_half_a_replacement_keeps_its_successor_and_its_count() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(0).await;
        let wanted =
            async || stage.get("app-instances/farm").await["topology"]["components"][0]["desired"].clone();
        let state = async |name: &str| stage.member(name).await["state"].clone();
        stage.order("replace", json!({"members": ["farm-head-1"]})).await.ok();
        complete(&stage, "join", async || {
            stage.members().await.len() == 2 && state("farm-head-2").await == "active"
        })
        .await;
        // Its second half is stuck: no adapter drains the old one. With force the new one is kept, and no third one is
        // created.
        let forced = json!({"members": ["farm-head-1"], "force": true});
        stage.order("replace", forced.clone()).await.ok();
        assert_eq!((wanted().await, heads(&stage).await.len()), (json!(1), 2));
        until("it is on its way out", async || state("farm-head-1").await == "removing").await;
        // Its removal is already forced: the same request is refused while it runs.
        stage.order("replace", forced.clone()).await.refused(409, "invalid_state");
        stage.order("remove", forced).await.refused(409, "invalid_state");
        let adapter = Good::start(&stage);
        until("the old one is removed", async || heads(&stage).await.len() == 1).await;
        let names: Vec<Value> = heads(&stage).await.iter().map(|head| head["name"].clone()).collect();
        assert_eq!((wanted().await, names), (json!(1), vec![json!("farm-head-2")]));
        // The last one is required: it cannot be removed, even with force.
        let last = json!({"members": ["farm-head-2"], "force": true});
        stage.order("remove", last).await.refused(409, "invalid_state");
        adapter.stop().await;
        stage.stop().await;
    }
}

/// How far a replacement has come when its old member is removed by force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// The successor has a cell and has not joined.
    Joining,
    /// The successor is active, and the old member waits to be drained.
    Draining,
    /// The old member is drained and waits for the adapter to remove it.
    Removing,
}

/// Replaces a member, with an adapter that stops at this point.
async fn replace_until(stage: &Stage, old: &str, new: &str, reached: Reached) {
    stage.order("replace", json!({"members": [old]})).await.ok();
    let state = async |name: &str| {
        let members = stage.members().await;
        members.iter().find(|member| member["name"] == name).map(|member| member["state"].clone())
    };
    until("the successor joins", async || state(new).await == Some(json!("joining"))).await;
    if reached != Reached::Joining {
        complete(stage, "join", async || state(new).await == Some(json!("active"))).await;
        until("the old one drains", async || state(old).await == Some(json!("draining"))).await;
    }
    if reached == Reached::Removing {
        complete(stage, "drain", async || state(old).await == Some(json!("removing"))).await;
    }
}

/// Asserts that an instance has these members alone, all active, and that nothing else of it is left. The row of a successor
/// that was cancelled stays, as failed, without a cell and an allocation.
async fn assert_only(stage: &Stage, names: &[&str], reached: Reached) {
    let store = stage.scene.kit.store();
    until("every operation has ended", async || store.operation_count().await.unwrap().is_empty()).await;
    let members = stage.members().await;
    let found: Vec<(&str, &str)> = members
        .iter()
        .filter(|member| member["failure_reason"] != "cancelled")
        .map(|member| (member["name"].as_str().unwrap(), member["state"].as_str().unwrap()))
        .collect();
    let expected: Vec<(&str, &str)> = names.iter().map(|name| (*name, "active")).collect();
    assert_eq!(found, expected, "{reached:?}");
    let live = async |collection: &str, ended: &str| {
        let page = stage.get(&format!("{collection}?page_size=200")).await;
        let items = page["items"].as_array().unwrap().iter();
        items.filter(|item| item["state"] != ended).count()
    };
    assert_eq!(live("cells", "destroyed").await, names.len(), "{reached:?}");
    assert_eq!(live("allocations", "released").await, names.len(), "{reached:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_removal_over_half_a_replacement_ends_with_the_right_members() {
    for database in Database::both() {
        let stage = Stage::new(database).await;
        stage.running(1).await;
        let desired = async || {
            let farm = stage.get("app-instances/farm").await;
            let components = farm["topology"]["components"].as_array().unwrap().clone();
            let count = |key: &str| {
                let of_key = components.iter().find(|component| component["component_key"] == key);
                of_key.unwrap()["desired"].as_i64().unwrap()
            };
            (count("head"), count("worker"))
        };
        // A worker can be spared: with the replacement not yet done, the removal takes its successor along.
        replace_until(&stage, "farm-worker-1", "farm-worker-2", Reached::Joining).await;
        let forced = json!({"members": ["farm-worker-1"], "force": true});
        let removed = stage.order("remove", forced).await.ok();
        let adapter = Good::start(&stage);
        assert_eq!(stage.scene.ended(&removed).await["state"], "succeeded");
        assert_only(&stage, &["farm-head-1"], Reached::Joining).await;
        assert_eq!(desired().await, (1, 0));
        adapter.stop().await;
        // The head is required: its removal is accepted as soon as its successor is active, which then is the head.
        let (mut old, mut number) = ("farm-head-1".to_owned(), 1);
        for reached in [Reached::Draining, Reached::Removing] {
            number += 1;
            let new = format!("farm-head-{number}");
            replace_until(&stage, &old, &new, reached).await;
            let removed = stage.order("remove", json!({"members": [old], "force": true})).await.ok();
            assert!(removed.body["operation"]["supersedes"].is_string(), "{}", removed.text);
            let adapter = Good::start(&stage);
            assert_eq!(stage.scene.ended(&removed).await["state"], "succeeded", "{reached:?}");
            assert_only(&stage, &[new.as_str()], reached).await;
            assert_eq!(desired().await, (1, 0), "{reached:?}");
            adapter.stop().await;
            old = new;
        }
        // Without a successor that is active it is refused, and nothing changes.
        replace_until(&stage, &old, "farm-head-4", Reached::Joining).await;
        let refused = stage.order("remove", json!({"members": [old], "force": true})).await;
        refused.refused(409, "invalid_state");
        let adapter = Good::start(&stage);
        assert_only(&stage, &["farm-head-4"], Reached::Joining).await;
        assert_eq!(desired().await, (1, 0));
        adapter.stop().await;
        stage.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scaling_in_over_half_a_replacement_leaves_the_desired_number() {
    for reached in [Reached::Joining, Reached::Draining] {
        for database in Database::both() {
            let stage = Stage::new(database).await;
            stage.running(2).await;
            replace_until(&stage, "farm-worker-1", "farm-worker-3", reached).await;
            let body = json!({"components": [{"component_key": "worker", "count": 1}]});
            let scaled = stage.post("app-instances/farm/scale", body).await.ok();
            let adapter = Good::start(&stage);
            assert_eq!(stage.scene.ended(&scaled).await["state"], "succeeded", "{reached:?}");
            // The old worker leaves with its replacement, and one of the others is the surplus: the newest.
            assert_only(&stage, &["farm-head-1", "farm-worker-2"], reached).await;
            adapter.stop().await;
            stage.stop().await;
        }
    }
}
