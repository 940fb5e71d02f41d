//! Sample operations in each state, for tests.

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) fn now() -> Timestamp {
    "2026-11-15T12:25:20Z".parse().unwrap()
}

/// `allocation.create of train-1`, in the middle of its second step or at its end.
pub(crate) fn operation(state: &str) -> Value {
    let mut operation = json!({
        "id": "op_1", "kind": "allocation.create", "project_id": "prj_1", "subject_kind": "allocation",
        "subject_id": "alc_1", "subject_name": "train-1", "actor_id": "usr_1", "actor_name": "sam@acme.example",
        "correlation_id": "c0ffee", "state": state,
        "steps": [
            {"name": "claim", "does": "finds a node", "verifies": false, "has_undo": true, "state": "done", "attempts": 1,
             "started_at": "2026-11-15T12:25:17.4Z", "ended_at": "2026-11-15T12:25:17.408Z"},
            {"name": "prepare", "does": "provision on the node", "verifies": false, "has_undo": true,
             "state": "running", "attempts": 2, "started_at": "2026-11-15T12:25:17.5Z"},
            {"name": "verify_active", "does": "verify on the node", "verifies": true, "has_undo": false,
             "state": "pending", "attempts": 0},
        ],
        "waiting": "the node has not answered yet", "cancel_requested": false,
        "deadline_at": "2026-11-15T12:40:17Z", "created_at": "2026-11-15T12:25:17Z",
        "updated_at": "2026-11-15T12:25:17.5Z", "version": 4,
    });
    if state == "accepted" {
        operation["waiting"] = Value::Null;
        for step in operation["steps"].as_array_mut().unwrap() {
            step["state"] = json!("pending");
            step["started_at"] = Value::Null;
        }
    }
    if matches!(state, "succeeded" | "partial" | "failed" | "cancelled" | "superseded") {
        operation["finished_at"] = json!("2026-11-15T12:25:19Z");
        operation["waiting"] = Value::Null;
    }
    match state {
        "succeeded" => {
            for place in [1, 2] {
                operation["steps"][place]["state"] = json!("done");
                operation["steps"][place]["started_at"] = json!("2026-11-15T12:25:18Z");
                operation["steps"][place]["ended_at"] = json!("2026-11-15T12:25:19Z");
            }
            operation["steps"][2]["witness_id"] = json!("wit_1");
            operation["witnesses"] = json!([seen()]);
        }
        "failed" => {
            operation["reason"] = json!("prepare_failed");
            operation["message"] = json!("the disk is full");
        }
        "blocked" => {
            operation["waiting"] = Value::Null;
            operation["steps"][1]["state"] = json!("failed");
            operation["reason"] = json!("prepare_failed");
            operation["message"] = json!("the disk is full");
            operation["blocked"] = json!({
                "reason": "the disk is full", "resolvable_by": "operator", "actions": ["retry", "compensate", "abandon"],
                "since": "2026-11-15T12:25:19Z", "escalates_at": "2026-11-15T13:25:19Z",
            });
        }
        _ => {}
    }
    operation
}

/// A witness from an agent.
pub(crate) fn seen() -> Value {
    json!({"id": "wit_1", "transition": "active", "kind": "witnessed", "incarnation": 1, "node_id": "nod_1",
           "task_id": "tsk_1", "at": "2026-11-15T12:25:19Z", "evidence": {
               "checked": {"present": true, "devices": ["GPU-a", "GPU-b"], "amount": {"cpus": 1}},
               "found": {"present": true, "devices": ["GPU-a", "GPU-b"], "amount": {"cpus": 1}, "residue": []}}})
}

/// An attestation.
pub(crate) fn attested() -> Value {
    json!({"id": "wit_2", "transition": "wiped", "kind": "attested", "incarnation": 1, "node_id": "nod_1",
           "actor_id": "usr_op", "at": "2026-11-15T12:25:19Z", "evidence": {
               "checked": [], "found": {"statement": "its disks were pulled"}}})
}
