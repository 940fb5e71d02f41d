//! `muster node get`: state, free capacity and slots of a node.

use jiff::Timestamp;
use serde_json::Value;

use super::hardware::{difference, summary};
use crate::age::{exact, instant, relative};
use crate::amount::mebibytes;
use crate::columns::part;
use crate::operation::text;
use crate::span::between;
use crate::table::{plain, table};

/// Formats the node.
pub(crate) fn shown(node: &Value, now: Timestamp) -> String {
    let mut lines = vec![format!("{}: {}", text(node, "name"), state(node, now))];
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<10} {value}", format!("{name}:")));
        }
    };
    fact("id", text(node, "id"));
    fact("labels", plain(&node["labels"]));
    fact("heartbeat", heartbeat(node, now));
    fact("free", free(node));
    fact(
        "held by",
        match node["allocations"].as_i64() {
            Some(0) | None => "none".to_owned(),
            Some(1) => "1 allocation".to_owned(),
            Some(count) => format!("{count} allocations"),
        },
    );
    fact("approval", approval(node, now));
    let changes = difference(node);
    lines.extend(changes.into_iter().map(|line| format!("  {line}")));
    if node["inventory"].is_object() {
        lines.push("hardware:".to_owned());
        lines.extend(summary(&node["inventory"]).into_iter().map(|line| format!("  {line}")));
    }
    if let Some(slots) = node["slots"].as_array().filter(|slots| !slots.is_empty()) {
        lines.push("slots:".to_owned());
        lines.extend(table(part("slots"), slots, now).lines().map(|line| format!("  {line}")));
    }
    lines.extend(next(node).map(|next| format!("next:      {next}")));
    lines.into_iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Formats the state with its details.
fn state(node: &Value, now: Timestamp) -> String {
    let state = text(node, "state");
    let since = node["unreachable_since"].as_str().and_then(instant).map(|then| between(then, now));
    let mut facts: Vec<String> = since.map(|time| format!("for {time}")).into_iter().collect();
    for (fact, word) in [("cordoned", "cordoned"), ("draining", "draining")] {
        if node[fact] == Value::Bool(true) && state != word {
            facts.push(word.to_owned());
        }
    }
    if facts.is_empty() { state } else { format!("{state} ({})", facts.join(", ")) }
}

fn heartbeat(node: &Value, now: Timestamp) -> String {
    let seen = node["seen_at"].as_str().and_then(instant).map(|then| relative(now, then));
    let until = node["certificate_until"].as_str().and_then(instant).map(|then| relative(now, then));
    format!(
        "{}, by agent {}; its certificate expires {}",
        seen.unwrap_or_else(|| "not yet".to_owned()),
        text(node, "agent_version"),
        until.unwrap_or_else(|| "?".to_owned())
    )
}

fn free(node: &Value) -> String {
    let number = |of: &str, name: &str| node[of][name].as_i64().unwrap_or(0);
    let of = |name: &str| format!("{} of {}", number("free", name), number("total", name));
    let amount =
        |name: &str| format!("{} of {}", mebibytes(number("free", name)), mebibytes(number("total", name)));
    format!(
        "{} GPUs, {} CPUs, {} memory, {} disk",
        of("gpus"),
        of("cpus"),
        amount("memory_mb"),
        amount("disk_mb")
    )
}

fn approval(node: &Value, now: Timestamp) -> String {
    let approved = node["approved_at"].as_str().and_then(|text| exact(text, now));
    let approved = approved.map(|time| format!("approved {time}"));
    match (node["needs_approval"] == Value::Bool(true), approved) {
        (false, Some(approved)) => approved,
        (true, Some(approved)) => format!("NEEDED: the hardware differs from the one {approved}:"),
        (_, None) => "NEEDED: this hardware is not approved yet".to_owned(),
    }
}

fn next(node: &Value) -> Option<String> {
    let name = text(node, "name");
    match node["state"].as_str() {
        Some("unreachable") => {
            Some("check the machine and its agent; docs/guides/nodes.md, \"A node is lost\"".to_owned())
        }
        Some("retired") => None,
        _ if node["needs_approval"] == Value::Bool(true) => Some(format!("muster node approve {name}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::samples::{enrolling, node};
    use crate::operation::samples::now;
    use serde_json::json;

    #[test]
    fn a_node_is_shown_with_its_slot_map() {
        let expected = "\
gpu-17: ready
id:        nod_1
labels:    rack=7
heartbeat: 4 s ago, by agent 0.1.0; its certificate expires in 23 h
free:      1 of 2 GPUs, 176 of 192 CPUs, 1 TiB of 2 TiB memory, 900000 MiB of 900000 MiB disk
held by:   1 allocation
approval:  approved 2026-11-15T12:25:10Z (10 s ago)
hardware:
  gpu-17, Ubuntu 24.04 (x86_64)
  192 CPUs in 2 sockets, EPYC
  2 TiB memory, 900000 MiB disk
  2 × NVIDIA H200, 143771 MiB each, in 1 island
  network ens1: up, RDMA
slots:
  SLOT  MODEL        NUMA  ISLAND  STATE     HELD BY  REASON  ID
  0     NVIDIA H200  0     0       approved  alc_1            slt_0
  1     NVIDIA H200  0     0       approved                   slt_1
";
        assert_eq!(shown(&node(), now()), expected);
    }

    #[test]
    fn node_view_ends_with_the_next_operator_action() {
        assert!(shown(&enrolling(), now()).ends_with("next:      muster node approve gpu-17\n"));
        let mut lost = node();
        lost["state"] = json!("unreachable");
        lost["unreachable_since"] = json!("2026-11-15T12:20:20Z");
        lost["cordoned"] = json!(true);
        let told = shown(&lost, now());
        assert!(told.starts_with("gpu-17: unreachable (for 5 min, cordoned)\n"), "{told}");
    }
}
