//! A complete manifest without errors, to be broken in one place at a time.

use muster_manifest::Context;
use serde_json::{Value, json};

pub(crate) const CONTEXT: Context<'static> = Context {
    known_permissions: &["member.get", "member.list", "instance.get", "user.create"],
    grantable: &["member.get", "member.list", "instance.get"],
};

pub(crate) fn good() -> Value {
    let check = |place: &str, words: Value| {
        json!({"in": place, "exec": words, "expect": {"exit": 0, "stdout": "^IDLE\\+DRAIN$"}, "within": "10m",
               "sees": ["/var/lib/app", "/run/app"], "environment": {"LC_ALL": "C"}, "uid": 1, "gid": 1})
    };
    json!({
        "app": "example",
        "version": "1.0.0",
        "artifact_kind": "oci",
        "artifacts": [{"name": "image", "repository": "example", "digest": format!("sha256:{}", "ab".repeat(32))}],
        "compatibility": {"requires_capacity_shape": ["baremetal", "gpu_slice"], "min_gpu_count": 8},
        "components": [
            {
                "key": "head",
                "count": {"min": 1, "max": 3, "default": 1},
                "capacity": {"cpus": 2, "memory_mb": 2048},
                "reach": "flat",
                "quorum": "majority",
                "stop_after_partition": 60,
                "state": ["/var/lib/app", "/var/lib/app2"],
                "runtime": {
                    "root": {"artifact": "image"},
                    "services": [
                        {"name": "store", "command": ["/usr/bin/store"], "working_directory": "/",
                         "ready": {"by": {"tcp": 7000}}},
                        {"name": "head", "command": ["/usr/bin/head", "--fast"], "after": ["store"],
                         "ready": {"by": {"http": {"port": 7001, "path": "/ready"}}}},
                        {"name": "later", "command": ["/usr/bin/later"], "after": ["head"], "start": "on_request",
                         "ready": {"by": {"command": ["/usr/bin/true"]}}}
                    ],
                    "environment": {"MODE": "plain"},
                    "ports": [{"name": "api", "port": 7001}, {"name": "gossip", "port": 7001, "protocol": "udp"}],
                    "secrets": [{"secret": "key", "file": "key"}]
                },
                "witnesses": {"drained": [check("self", json!(["/usr/bin/state", "{member.name}"]))]}
            },
            {
                "key": "worker",
                "count": {"min": 0, "max": 8},
                "capacity": {"gpus": 1, "cpus": 2, "memory_mb": 4096, "disk_mb": 8192},
                "reach": "flat",
                "quorum": {"at_least": 1},
                "runtime": {"root": {"host": ["/usr", "/opt/app"]}},
                "witnesses": {
                    "active": [check("head", json!(["/usr/bin/state", "{{{member.id}}}", "{member.address}"]))],
                    "drained": [check("head", json!(["/usr/bin/state", "{component.key}", "{instance.name}"]))],
                    "removed": [check("head", json!(["/usr/bin/gone", "{instance.id}"]))]
                }
            }
        ],
        "config_schema": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "name": {"$ref": "#/$defs/name"},
                "default": {"type": "number", "multipleOf": 0.5, "default": {"$ref": "elsewhere"}}
            },
            "required": ["size"],
            "$defs": {"name": {"type": "string", "pattern": "^[a-z]+$"}}
        },
        "permissions": ["member.get", "member.list"],
        "operations": ["drain", "resume", "replace"],
        "meters": [{"name": "tokens", "unit": "token", "kind": "counter"}],
        "repair": {"mode": "propose"}
    })
}

/// Returns the example with this value at that path, which may be a new field; `-` appends to a list.
pub(crate) fn with(place: &str, value: Value) -> Value {
    let mut document = good();
    set(&mut document, place, value);
    document
}

pub(crate) fn set(document: &mut Value, place: &str, value: Value) {
    let (parent, name) = place.rsplit_once('/').expect("a place in the document");
    match document.pointer_mut(parent).unwrap_or_else(|| panic!("{parent} is there")) {
        Value::Object(object) => {
            object.insert(name.to_owned(), value);
        }
        Value::Array(items) if name == "-" => items.push(value),
        Value::Array(items) => items[name.parse::<usize>().expect("an index")] = value,
        other => panic!("{parent} is {other}"),
    }
}
