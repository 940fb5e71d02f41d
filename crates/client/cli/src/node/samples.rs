//! A node with two GPUs, for tests.

use serde_json::{Value, json};

pub(crate) fn node() -> Value {
    let gpu = |ordinal: i64| {
        json!({"ordinal": ordinal, "uuid": format!("GPU-{ordinal}"), "model": "NVIDIA H200", "memory_mb": 143_771,
               "numa": 0, "island": 0, "nvlinks": 18, "mig": false})
    };
    let slot = |ordinal: i64, holder: Option<&str>| {
        json!({"id": format!("slt_{ordinal}"), "node_id": "nod_1", "kind": "gpu", "device": format!("GPU-{ordinal}"),
               "ordinal": ordinal, "model": "NVIDIA H200", "memory_mb": 143_771, "numa": 0, "island": 0,
               "state": "approved", "allocation_id": holder, "version": 1})
    };
    json!({
        "id": "nod_1", "name": "gpu-17", "labels": {"rack": "7"}, "state": "ready", "cordoned": false, "draining": false,
        "total": {"gpus": 2, "cpus": 192, "memory_mb": 2_097_152, "disk_mb": 900_000},
        "free": {"gpus": 1, "cpus": 176, "memory_mb": 1_048_576, "disk_mb": 900_000}, "allocations": 1,
        "inventory_digest": "ab".repeat(32), "approved_digest": "ab".repeat(32), "approved_at": "2026-11-15T12:25:10Z",
        "needs_approval": false, "seen_at": "2026-11-15T12:25:16Z", "agent_version": "0.1.0",
        "certificate_until": "2026-11-16T12:25:00Z", "created_at": "2026-11-15T12:25:00Z",
        "updated_at": "2026-11-15T12:25:16Z", "version": 3,
        "slots": [slot(0, Some("alc_1")), slot(1, None)],
        "inventory": {
            "hostname": "gpu-17", "kernel": "6.8", "os": "Ubuntu 24.04", "architecture": "x86_64", "boot_id": "1",
            "cpus": {"count": 192, "sockets": 2, "model": "EPYC"}, "memory_mb": 2_097_152, "disk_mb": 900_000,
            "numa": [], "pci": [], "network": [{"name": "ens1", "state": "up", "rdma": true}],
            "gpus": [gpu(0), gpu(1)], "simulated": false, "notes": [],
        },
    })
}

/// The same, before its approval.
pub(crate) fn enrolling() -> Value {
    let mut node = node();
    node["state"] = json!("enrolling");
    node["needs_approval"] = json!(true);
    node["approved_digest"] = Value::Null;
    node["approved_at"] = Value::Null;
    node
}
