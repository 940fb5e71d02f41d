//! The adapter API over HTTP: leases, fencing, tasks in cells, and scheduled reconciliation.

mod fences;
mod looks;
mod tasks;

use serde_json::{Value, json};

use crate::instance::Stage;

/// Launches `farm` with the test as its adapter; returns the step by which its first member joins.
async fn joining(stage: &Stage) -> Value {
    joining_with(stage, json!({})).await
}

/// The same for an instance with this configuration.
async fn joining_with(stage: &Stage, config: Value) -> Value {
    let asked = json!({"name": "farm", "app": "pool", "app_version": "1", "config": config});
    stage.post("app-instances", asked).await.ok();
    let mut steps = stage.lease(20).await;
    assert_eq!(steps.len(), 1, "the head comes first: {steps:#?}");
    steps.remove(0)
}

fn generation(step: &Value) -> i64 {
    step["step"]["generation"].as_i64().unwrap()
}
