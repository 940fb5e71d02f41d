//! Force always gives a way out: of a replacement blocked in its second half, and of a blocked removal.

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Good, Stage};
use crate::cell::until;

/// Completes steps of this verb by hand, and ignores the others, until `done`.
async fn complete(stage: &Stage, verb: &str, done: impl AsyncFn() -> bool) {
    until("the adapter's part is done", async || {
        for step in stage.lease(0).await {
            if step["step"]["verb"] == verb {
                let generation = step["step"]["generation"].as_i64().unwrap();
                stage.say(&step, "complete", generation, json!({"message": "done"})).await.ok();
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
