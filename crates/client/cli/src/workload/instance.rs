//! Instances: components, health and next step.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::{COMPONENT, ENDPOINT};
use super::under_way;
use crate::age::{exact, instant, relative};
use crate::amount::amount;
use crate::operation::text;
use crate::table::{plain, table};

/// Adds derived columns: `hub 1/1, unit 3/3`, active of desired members.
pub(crate) fn row(instance: &mut Value) {
    let components = components(instance).iter().map(|component| {
        let number = |name: &str| component[name].as_i64().unwrap_or(0);
        format!("{} {}/{}", text(component, "component_key"), number("current"), number("desired"))
    });
    instance["components"] = json!(components.collect::<Vec<_>>().join(", "));
}

fn components(instance: &Value) -> &[Value] {
    instance["topology"]["components"].as_array().map_or(&[], Vec::as_slice)
}

/// Formats the instance.
pub(crate) fn shown(instance: &Value, now: Timestamp) -> String {
    let mut lines = vec![format!(
        "{}: {} {}, {}, {}",
        text(instance, "name"),
        text(instance, "app"),
        text(instance, "app_version"),
        text(instance, "state"),
        text(instance, "health")
    )];
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<12} {value}", format!("{name}:")));
        }
    };
    let time = |name: &str| instance[name].as_str().and_then(|text| exact(text, now)).unwrap_or_default();
    fact("id", text(instance, "id"));
    fact("labels", plain(&instance["labels"]));
    fact("reason", text(instance, "reason"));
    fact("message", text(instance, "message"));
    fact("advice", text(instance, "advice"));
    fact("health", crate::member::view::health(instance, now));
    fact("mode", text(&instance["topology"], "mode"));
    fact("shape", text(instance, "bound_capacity_shape"));
    fact("network", text(instance, "network_id"));
    fact("operated by", text(instance, "operator_service_account"));
    fact("repair", text(instance, "repair"));
    if instance["protected"] == Value::Bool(true) {
        fact("protected", "yes".to_owned());
    }
    fact("previous", text(instance, "previous_version_id"));
    fact("expires", time("expires_at"));
    fact("created", time("created_at"));
    let looked = instance["reconciled_at"].as_str().and_then(instant).map(|then| relative(now, then));
    fact("reconciled", looked.unwrap_or_default());
    fact("evidence", evidence(instance));
    if instance["config"].as_object().is_some_and(|config| !config.is_empty()) {
        lines.push("config:".to_owned());
        lines.extend(indented(&instance["config"]));
    }
    let rows: Vec<Value> = components(instance)
        .iter()
        .map(|component| {
            let mut row = component.clone();
            row["each"] = json!(amount(&component["capacity"]));
            row
        })
        .collect();
    if !rows.is_empty() {
        lines.push("components:".to_owned());
        lines.extend(table(Some(COMPONENT), &rows, now).lines().map(|line| format!("  {line}")));
    }
    if let Some((operation, _)) = under_way(instance) {
        lines.push(format!("{:<12} {operation}", "in progress:"));
    }
    lines.extend(next(instance).map(|next| format!("{:<12} {next}", "next:")));
    lines.into_iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn evidence(instance: &Value) -> String {
    let kinds = [("running", "running_witness_id"), ("stopped", "stopped_witness_id")];
    let known =
        kinds.into_iter().filter_map(|(word, name)| Some(format!("{word} {}", instance[name].as_str()?)));
    known.collect::<Vec<_>>().join(", ")
}

/// Formats a document as indented JSON, safe to print. JSON already escapes ASCII control characters.
pub(crate) fn indented(document: &Value) -> Vec<String> {
    let text = crate::printable::printable_json(&format!("{document:#}"));
    text.lines().map(|line| format!("  {line}")).collect()
}

fn next(instance: &Value) -> Option<String> {
    let name = text(instance, "name");
    if let Some((_, command)) = under_way(instance) {
        return Some(command);
    }
    match (instance["state"].as_str(), instance["health"].as_str()) {
        (Some("failed"), _) => Some(format!("muster instance decommission {name}")),
        (Some("running"), Some("degraded" | "unhealthy")) => Some(format!("muster member list {name}")),
        _ => None,
    }
}

/// Formats the endpoints of an instance: inside its network, and from outside where a node port forwards to it.
pub(crate) fn endpoints(answer: &Value, now: Timestamp) -> String {
    let rows = answer["endpoints"].as_array().into_iter().flatten();
    let rows: Vec<Value> = rows
        .map(|endpoint| {
            let joined = |address: &str, port: &str| {
                let (address, port) = (endpoint[address].as_str()?, endpoint[port].as_i64()?);
                // An IPv6 address needs brackets.
                Some(if address.contains(':') {
                    format!("[{address}]:{port}")
                } else {
                    format!("{address}:{port}")
                })
            };
            let mut row = endpoint.clone();
            row["inside"] = json!(joined("address", "port"));
            row["outside"] = json!(joined("node_address", "node_port"));
            row
        })
        .collect();
    if rows.is_empty() {
        return "none: no active member has an endpoint\n".to_owned();
    }
    table(Some(ENDPOINT), &rows, now)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::columns::columns;
    use crate::operation::samples::{now, operation};

    pub(crate) fn sample() -> Value {
        json!({
            "id": "ins_1", "name": "lab", "labels": {"team": "ml"}, "app": "notebook", "app_version": "1.2",
            "app_version_id": "apv_2", "previous_version_id": "apv_1", "config": {"rate": 5},
            "operator_service_account": "sa_1", "network_id": "net_1", "bound_capacity_shape": "gpu_slice",
            "state": "running", "health": "degraded", "repair": "propose", "protected": false,
            "topology": {"mode": "star", "components": [
                {"component_key": "hub", "desired": 1, "current": 1, "members": 1, "health": "healthy",
                 "capacity": {"gpus": 0, "cpus": 1, "memory_mb": 1024, "disk_mb": 1024}},
                {"component_key": "unit", "desired": 3, "current": 2, "members": 4, "health": "degraded",
                 "capacity": {"gpus": 1, "cpus": 2, "memory_mb": 4096, "disk_mb": 8192}, "allocation_id": "alc_9"},
            ]},
            "running_witness_id": "wit_7", "operation_id": "op_1", "reconciled_at": "2026-11-15T12:25:10Z",
            "created_at": "2026-11-15T12:20:20Z", "updated_at": "2026-11-15T12:20:20Z", "version": 3,
        })
    }

    #[test]
    fn a_list_says_how_many_of_each_component_there_are_of_those_that_are_wanted() {
        let mut rows = [sample()];
        rows.iter_mut().for_each(row);
        let expected = "\
NAME  APP       VERSION  STATE    HEALTH    COMPONENTS         MADE       WHY  ID
lab   notebook  1.2      running  degraded  hub 1/1, unit 2/3  5 min ago       ins_1
";
        assert_eq!(table(columns(&["instance", "list"]), &rows, now()), expected);
    }

    #[test]
    fn an_instance_is_shown_with_its_components_and_the_next_command() {
        let expected = "\
lab: notebook 1.2, running, degraded
id:         ins_1
labels:     team=ml
mode:       star
shape:      gpu_slice
network:    net_1
operated by: sa_1
repair:     propose
previous: apv_1
created:       2026-11-15T12:20:20Z (5 min ago)
reconciled:  10 s ago
evidence:   running wit_7
config:
  {
    \"rate\": 5
  }
components:
  COMPONENT  DESIRED  ACTIVE  MEMBERS  HEALTH    CAPACITY                                   ALLOCATION
  hub        1       1       1       healthy   0 GPUs, 1 CPU, 1 GiB memory, 1 GiB disk
  unit       3       2       4       degraded  1 GPU, 2 CPUs, 4 GiB memory, 8 GiB disk    alc_9
next:        muster member list lab
";
        let told = shown(&sample(), now());
        assert_eq!(squeezed(&told), squeezed(expected));
    }

    /// Ignores the column widths of the table.
    fn squeezed(text: &str) -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn instance_view_leads_to_its_running_or_blocked_operation() {
        let mut instance = sample();
        instance["operation"] = operation("running");
        let told = shown(&instance, now());
        assert!(
            told.ends_with(
                "in progress: op_1, allocation.create of train-1, running: the node has not answered yet\n\
                 next:        muster operation watch op_1\n"
            ),
            "{told}"
        );
        instance["operation"] = operation("blocked");
        let told = shown(&instance, now());
        assert!(told.contains("blocked: the disk is full\nnext:        muster operation get op_1"), "{told}");
        instance["operation"] = operation("succeeded");
        assert!(!shown(&instance, now()).contains("in progress"));
    }

    #[test]
    fn a_failed_one_says_why_and_what_to_do() {
        let mut instance = sample();
        instance["state"] = json!("failed");
        instance["reason"] = json!("below_minimum");
        instance["advice"] = json!("see the items");
        let told = shown(&instance, now());
        assert!(told.contains("reason:      below_minimum\nadvice:      see the items\n"), "{told}");
        assert!(told.ends_with("next:        muster instance decommission lab\n"), "{told}");
    }

    #[test]
    fn endpoints_are_addresses_with_ports() {
        let answer = json!({"endpoints": [
            {"name": "web", "member": "hub-0", "component_key": "hub", "address": "10.0.0.2", "port": 80, "protocol": "tcp",
             "node_address": "fd00::1", "node_port": 30080},
            {"name": "rpc", "member": "unit-0", "component_key": "unit", "address": "10.0.0.3", "port": 81, "protocol": "tcp"},
        ]});
        let expected = "\
NAME  MEMBER  COMPONENT  INSIDE       FROM OUTSIDE     PROTOCOL
web   hub-0   hub        10.0.0.2:80  [fd00::1]:30080  tcp
rpc   unit-0  unit       10.0.0.3:81                   tcp
";
        assert_eq!(endpoints(&answer, now()), expected);
        assert!(endpoints(&json!({"endpoints": []}), now()).starts_with("none"));
    }
}
