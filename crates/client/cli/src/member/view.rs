//! `muster member get`: state, location, evidence and adapter detail of a member.

use jiff::Timestamp;
use serde_json::Value;

use crate::age::exact;
use crate::operation::text;
use crate::workload::instance::indented;
use crate::workload::under_way;

/// Formats the member.
pub(crate) fn shown(member: &Value, now: Timestamp) -> String {
    let fenced = if member["fenced"] == Value::Bool(true) { ", FENCED" } else { "" };
    let mut lines = vec![format!(
        "{}: {}, {}, {}{fenced}",
        text(member, "name"),
        text(member, "component_key"),
        text(member, "state"),
        text(member, "health")
    )];
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<12} {value}", format!("{name}:")));
        }
    };
    fact("id", text(member, "id"));
    fact("instance", text(member, "instance_id"));
    fact("reason", text(member, "failure_reason"));
    fact("message", text(member, "message"));
    fact("advice", text(member, "advice"));
    fact("health", health(member, now));
    if member["state"] != "failed" {
        fact("advice", text(member, "health_advice"));
    }
    fact("services", services(member));
    fact("node", text(member, "node_id"));
    fact("allocation", allocation(member));
    fact("cell", text(member, "cell_id"));
    fact("address", text(member, "address"));
    fact("release", text(member, "app_version_id"));
    fact("incarnation", member["incarnation"].as_i64().map(|number| number.to_string()).unwrap_or_default());
    fact("free", member["free_at"].as_str().and_then(|text| exact(text, now)).unwrap_or_default());
    fact("evidence", evidence(member));
    fact("created", member["created_at"].as_str().and_then(|text| exact(text, now)).unwrap_or_default());
    fact("correlation", text(member, "correlation_id"));
    let (operation, next) = match under_way(member) {
        Some((operation, next)) => (Some(operation), Some(next)),
        None => (None, next(member)),
    };
    match operation {
        Some(operation) => fact("in progress", operation),
        None => fact("last op", text(member, "last_operation_id")),
    }
    if member["adapter_detail"].as_object().is_some_and(|detail| !detail.is_empty()) {
        lines.push("adapter detail:".to_owned());
        lines.extend(indented(&member["adapter_detail"]));
    }
    lines.extend(next.map(|next| format!("{:<12} {next}", "next:")));
    lines.into_iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn allocation(member: &Value) -> String {
    let id = text(member, "allocation_id");
    if id.is_empty() {
        return id;
    }
    let made =
        if member["allocation_made"] == Value::Bool(true) { "created for it" } else { "the project's own" };
    match text(member, "bound_capacity_shape") {
        shape if shape.is_empty() => format!("{id} ({made})"),
        shape => format!("{id} ({shape}, {made})"),
    }
}

/// Formats the evidence for the states that need some. Its details are in `muster operation get`.
fn evidence(member: &Value) -> String {
    let kinds = [
        ("active", "active_witness_id"),
        ("drained", "drained_witness_id"),
        ("removed", "removed_witness_id"),
    ];
    let known = kinds.into_iter().filter(|(_, name)| member[*name].is_string());
    let known = known.map(|(word, name)| format!("{word} {}", text(member, name)));
    known.collect::<Vec<_>>().join(", ")
}

/// Formats its services in one line: `web running, restarted 4 times; db running`.
fn services(member: &Value) -> String {
    let shown = member["services"].as_array().into_iter().flatten().map(|service| {
        let ready = match (service["state"].as_str(), service["ready"].as_bool()) {
            (Some("running"), Some(false)) => ", not ready",
            _ => "",
        };
        let restarts = match service["restarts"].as_i64() {
            None | Some(0) => String::new(),
            Some(1) => ", restarted once".to_owned(),
            Some(times) => format!(", restarted {times} times"),
        };
        format!("{} {}{ready}{restarts}", text(service, "name"), text(service, "state"))
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Formats the reason a member is not healthy: `probe_failed: port 80 is closed, since 2026-11-15T12:20:20Z (5 min ago)`.
pub(crate) fn health(thing: &Value, now: Timestamp) -> String {
    let why = [text(thing, "health_reason"), text(thing, "health_message")];
    let why = why.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ");
    let since = thing["health_since"].as_str().and_then(|text| exact(text, now));
    match (why.is_empty(), since.filter(|_| thing["health"] != "healthy")) {
        (false, Some(since)) => format!("{why}, since {since}"),
        (true, Some(since)) => format!("{}, since {since}", text(thing, "health")),
        (_, None) => why,
    }
}

fn next(member: &Value) -> Option<String> {
    let said = format!("{} {}", text(member, "instance_id"), text(member, "name"));
    match (member["state"].as_str(), member["health"].as_str()) {
        (Some("failed"), _) => Some(format!("muster member recover {said}, or replace or remove it")),
        (Some("drained"), _) => Some(format!("muster member resume {said}, or remove it")),
        (Some("active"), Some("unhealthy")) => Some(format!("muster member replace {said}")),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::operation::samples::{now, operation};
    use serde_json::json;

    pub(crate) fn sample() -> Value {
        json!({
            "id": "mem_1", "instance_id": "ins_1", "component_key": "unit", "name": "unit-0", "state": "drained",
            "health": "healthy", "incarnation": 2, "allocation_id": "alc_1", "allocation_made": true,
            "bound_capacity_shape": "gpu_slice", "node_id": "nod_1", "cell_id": "cel_1", "address": "10.0.0.3",
            "app_version_id": "apv_2", "adapter_detail": {"queue": {"left": 0}}, "fenced": false,
            "active_witness_id": "wit_1", "drained_witness_id": "wit_2", "last_operation_id": "op_1",
            "services": [{"name": "web", "state": "running", "ready": true, "restarts": 4},
                         {"name": "db", "state": "running", "ready": false, "restarts": 0}],
            "correlation_id": "c0ffee", "created_at": "2026-11-15T12:20:20Z", "updated_at": "2026-11-15T12:20:20Z",
            "version": 3,
        })
    }

    #[test]
    fn a_member_is_shown_with_its_evidence_and_what_its_adapter_says() {
        let expected = "\
unit-0: unit, drained, healthy
id:          mem_1
instance:    ins_1
services:    web running, restarted 4 times; db running, not ready
node:        nod_1
allocation:  alc_1 (gpu_slice, created for it)
cell:        cel_1
address:     10.0.0.3
release:     apv_2
incarnation: 2
evidence:    active wit_1, drained wit_2
created:     2026-11-15T12:20:20Z (5 min ago)
correlation: c0ffee
last op:     op_1
adapter detail:
  {
    \"queue\": {
      \"left\": 0
    }
  }
next:        muster member resume ins_1 unit-0, or remove it
";
        assert_eq!(shown(&sample(), now()), expected);
    }

    #[test]
    fn a_failed_fenced_one_says_so_and_nothing_that_an_adapter_says_reaches_the_terminal() {
        let mut member = sample();
        member["state"] = json!("failed");
        member["fenced"] = json!(true);
        member["failure_reason"] = json!("cell_ended");
        member["advice"] = json!("replace it");
        member["adapter_detail"] = json!({"a": "\u{1b}[2Jb\u{9b}\u{202e}"});
        let told = shown(&member, now());
        assert!(told.starts_with("unit-0: unit, failed, healthy, FENCED\n"), "{told}");
        assert!(told.contains("reason:      cell_ended\nadvice:      replace it\n"), "{told}");
        assert!(told.contains("next:        muster member recover ins_1 unit-0"), "{told}");
        assert!(told.chars().all(|letter| letter == '\n' || !letter.is_control()), "{told:?}");
        assert!(!told.contains('\u{202e}'), "{told:?}");
    }

    #[test]
    fn an_unhealthy_one_says_why_since_when_and_what_to_do() {
        let mut member = sample();
        member["state"] = json!("active");
        member["health"] = json!("unhealthy");
        member["health_reason"] = json!("service_ended");
        member["health_message"] = json!("the service web ended with 1");
        member["health_since"] = json!("2026-11-15T12:20:20Z");
        member["health_advice"] = json!("read its log");
        let told = shown(&member, now());
        let health = "health:      service_ended: the service web ended with 1, since 2026-11-15T12:20:20Z (5 min ago)\n";
        assert!(told.contains(health), "{told}");
        assert!(told.contains("\nadvice:      read its log\n"), "{told}");
        assert!(told.ends_with("next:        muster member replace ins_1 unit-0\n"), "{told}");
    }

    #[test]
    fn operation_in_progress_takes_precedence_in_the_member_view() {
        let mut member = sample();
        member["operation"] = operation("running");
        let told = shown(&member, now());
        assert!(
            told.contains("in progress: op_1,")
                && told.ends_with("next:        muster operation watch op_1\n"),
            "{told}"
        );
    }
}
