//! The timeline of an instance: everything that belongs to it and nothing else, listed and followed live.

use std::collections::BTreeSet;

use muster_testkit::Database;
use serde_json::{Value, json};

use super::{Good, Stage};
use crate::event::Live;

fn texts<'v>(items: &'v [Value], key: &str) -> Vec<&'v str> {
    items.iter().filter_map(|item| item[key].as_str()).collect()
}

/// All pages of a list of events.
async fn events(stage: &Stage, path: &str) -> Vec<Value> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page =
            stage.scene.admin.get(&format!("{path}{separator}after={after}&page_size=20")).await.ok().body;
        let items = page["items"].as_array().unwrap().clone();
        if items.is_empty() {
            return found;
        }
        after = page["next_after"].as_i64().unwrap();
        found.extend(items);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_has_what_belongs_to_the_instance_and_nothing_else() {
    for database in Database::both() {
        timeline(database).await;
    }
}

async fn timeline(database: Database) {
    let stage = Stage::new(database).await;
    let scene = &stage.scene;
    let farm = stage.running(2).await;
    let project = scene.base.rsplit('/').next().unwrap();
    let adapter = Good::start(&stage);
    let id = farm["id"].as_str().unwrap();
    let mut live = Live::at(&scene.admin, &stage.at("app-instances/farm/events/stream?after=0"), None).await;
    scene.done(stage.order("add", json!({"component_key": "worker"})).await).await;
    // Belongs to no instance.
    let ask = json!({"name": "bare", "gpus": 0, "cpus": 1, "memory_mb": 128, "disk_mb": 256});
    scene.done(stage.post("allocations", ask).await).await;
    scene.done(stage.order("drain", json!({"members": ["farm-worker-3"]})).await).await;
    adapter.stop().await;

    let members = stage.members().await;
    let of_member: BTreeSet<&str> = ["id", "cell_id", "allocation_id"]
        .into_iter()
        .flat_map(|key| texts(&members, key))
        .chain([id])
        .collect();
    let operations =
        stage.scene.admin.get(&format!("/v1/operations?project={}&page_size=200", project)).await;
    let operations = operations.ok().body["items"].as_array().unwrap().clone();
    let bare = |operation: &&Value| operation["subject_name"] == "bare";
    let foreign: BTreeSet<&str> =
        operations.iter().filter(bare).filter_map(|operation| operation["id"].as_str()).collect();
    assert_eq!(foreign.len(), 1, "{operations:#?}");
    let is_foreign = |event: &Value| {
        let subject = event["subject"].as_str().unwrap();
        let last = subject.rsplit('/').next().unwrap();
        let by = event["data"]["operation_id"].as_str().unwrap_or_default();
        foreign.contains(last) || foreign.contains(by)
    };
    let all = events(&stage, &format!("/v1/events?project={}", project)).await;
    let of_farm = |event: &&Value| {
        let subject = event["subject"].as_str().unwrap();
        let named = subject.split('/').any(|segment| of_member.contains(segment));
        named
            || (subject.contains("/operations/") || subject.contains("/adapter-steps/")) && !is_foreign(event)
    };
    let expected: Vec<&Value> = all.iter().filter(of_farm).collect();
    let listed = events(&stage, &stage.at("app-instances/farm/events")).await;
    let numbers = |events: &[&Value]| -> Vec<i64> {
        events.iter().map(|event| event["sequence"].as_i64().unwrap()).collect()
    };
    let short = |event: &Value| format!("{} {} {}", event["sequence"], event["type"], event["subject"]);
    let missing: Vec<String> =
        expected.iter().filter(|event| !listed.contains(event)).map(|event| short(event)).collect();
    let foreign: Vec<String> = listed.iter().filter(|event| !expected.contains(event)).map(short).collect();
    assert!(missing.is_empty() && foreign.is_empty(), "missing: {missing:#?}; foreign: {foreign:#?}");
    assert!(listed.iter().all(|event| event["instanceid"] == id));
    assert!(all.len() > listed.len() + 2);
    for kind in
        ["instance.created", "member.drained", "cell.running", "allocation.active", "adapter_step.leased"]
    {
        let kind = format!("dev.muster.{kind}.v1");
        assert!(listed.iter().any(|event| event["type"] == kind.as_str()), "{kind} is missing");
    }
    // Events of one member carry it: those of its cell, its allocation and its operations.
    let worker = members.last().unwrap();
    let cell = format!("/cells/{}", worker["cell_id"].as_str().unwrap());
    let of_cell = listed.iter().filter(|event| event["subject"].as_str().unwrap().ends_with(&cell));
    assert!(of_cell.clone().count() > 0 && of_cell.clone().all(|event| event["memberid"] == worker["id"]));

    // The live stream has the same, in the same order, and resumes after a number.
    let mut streamed = Vec::new();
    while streamed.len() < listed.len() {
        streamed.push(live.next().await.unwrap().1);
    }
    assert_eq!(streamed, listed);
    let after = listed[listed.len() - 3]["sequence"].as_i64().unwrap();
    let path = stage.at("app-instances/farm/events/stream");
    let mut resumed = Live::at(&scene.admin, &path, Some(after)).await;
    for number in &numbers(&listed.iter().collect::<Vec<_>>())[listed.len() - 2..] {
        assert_eq!(resumed.next().await.unwrap().1["sequence"], *number);
    }
    // Events of others move it on without a word; the next of its own arrives.
    scene.done(stage.post("allocations/bare/release", json!({})).await).await;
    let add = stage.order("add", json!({"component_key": "worker"})).await.ok().body["operation"].clone();
    scene.admin.post(&format!("/v1/operations/{}/cancel", add["id"].as_str().unwrap()), json!({})).await.ok();
    let requested = loop {
        let next = resumed.next().await.unwrap().1;
        assert_eq!(
            (&next["instanceid"], next["subject"].as_str().unwrap().contains("bare")),
            (&json!(id), false)
        );
        if next["type"] == "dev.muster.operation.cancel_requested.v1" {
            break next;
        }
    };
    assert_eq!(requested["memberid"], add["subject_id"], "a decision about an operation is on its timeline");
    stage.stop().await;
}
