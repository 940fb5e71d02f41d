//! Summary of a machine's hardware as reported by its agent. The full report is in `-o json`.

use serde_json::Value;

use crate::amount::{count, mebibytes};
use crate::operation::text;
use crate::printable::printable;

/// Returns the machine, its processors and memory, its GPUs by model, and the agent's remarks.
pub(crate) fn summary(inventory: &Value) -> Vec<String> {
    let number = |value: &Value, name: &str| value[name].as_i64().unwrap_or(0);
    let cpus = &inventory["cpus"];
    let mut lines = vec![
        format!(
            "{}, {} ({})",
            text(inventory, "hostname"),
            text(inventory, "os"),
            text(inventory, "architecture")
        ),
        format!(
            "{} in {}, {}",
            count(number(cpus, "count"), "CPU"),
            count(number(cpus, "sockets"), "socket"),
            text(cpus, "model")
        ),
        format!(
            "{} memory, {} disk",
            mebibytes(number(inventory, "memory_mb")),
            mebibytes(number(inventory, "disk_mb"))
        ),
    ];
    lines.extend(gpus(inventory));
    let networks = inventory["network"].as_array().into_iter().flatten();
    for device in networks {
        let rdma = if device["rdma"] == Value::Bool(true) { ", RDMA" } else { "" };
        lines.push(format!("network {}: {}{rdma}", text(device, "name"), text(device, "state")));
    }
    if inventory["simulated"] == Value::Bool(true) {
        lines.push("! the GPUs are simulated: this machine has none of them".to_owned());
    }
    let notes = inventory["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines.extend(notes.map(|note| format!("! {}", printable(note))));
    lines
}

/// Returns `4 × NVIDIA H200, 143771 MiB, in 1 island`, one line per model.
fn gpus(inventory: &Value) -> Vec<String> {
    let gpus = inventory["gpus"].as_array().map_or(&[][..], Vec::as_slice);
    let mut models: Vec<(String, i64, Vec<i64>)> = Vec::new();
    for gpu in gpus {
        let (model, memory) = (text(gpu, "model"), gpu["memory_mb"].as_i64().unwrap_or(0));
        let island = gpu["island"].as_i64().unwrap_or(0);
        match models.iter_mut().find(|(known, size, _)| (known, *size) == (&model, memory)) {
            Some((_, _, islands)) => islands.push(island),
            None => models.push((model, memory, vec![island])),
        }
    }
    if models.is_empty() {
        return vec!["no GPUs".to_owned()];
    }
    let line = |(model, memory, mut islands): (String, i64, Vec<i64>)| {
        let amount = islands.len();
        islands.sort_unstable();
        islands.dedup();
        let islands = i64::try_from(islands.len()).unwrap_or(i64::MAX);
        format!("{amount} × {model}, {} each, in {}", mebibytes(memory), count(islands, "island"))
    };
    models.into_iter().map(line).collect()
}

/// Returns the changes since the approval, one line each.
pub(crate) fn difference(node: &Value) -> Vec<String> {
    let changes = node["difference"].as_array().into_iter().flatten();
    let line = |change: &Value| {
        let what = text(change, "what");
        match (change["was"].as_str().map(printable), change["is"].as_str().map(printable)) {
            (Some(was), Some(is)) => format!("~ {what}: {was} -> {is}"),
            (Some(was), None) => format!("- {what}: {was}"),
            (None, is) => format!("+ {what}: {}", is.unwrap_or_default()),
        }
    };
    changes.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::samples::node;
    use serde_json::json;

    #[test]
    fn a_machine_is_told_in_a_few_lines() {
        let mut inventory = node()["inventory"].clone();
        assert_eq!(
            summary(&inventory),
            [
                "gpu-17, Ubuntu 24.04 (x86_64)",
                "192 CPUs in 2 sockets, EPYC",
                "2 TiB memory, 900000 MiB disk",
                "2 × NVIDIA H200, 143771 MiB each, in 1 island",
                "network ens1: up, RDMA",
            ]
        );
        inventory["gpus"] = json!([]);
        inventory["simulated"] = json!(true);
        inventory["notes"] = json!(["no driver\u{1b}[2J"]);
        let told = summary(&inventory);
        assert!(
            told.contains(&"no GPUs".to_owned()) && told.last().unwrap() == "! no driver�[2J",
            "{told:?}"
        );
    }

    #[test]
    fn hardware_difference_marks_removed_added_and_changed_items() {
        let node = json!({"difference": [
            {"what": "gpu GPU-0", "was": "model H200"}, {"what": "gpu GPU-9", "is": "model H200"},
            {"what": "memory_mb", "was": "8", "is": "4"},
        ]});
        assert_eq!(
            difference(&node),
            ["- gpu GPU-0: model H200", "+ gpu GPU-9: model H200", "~ memory_mb: 8 -> 4"]
        );
        assert!(difference(&json!({})).is_empty());
    }
}
