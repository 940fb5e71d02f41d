//! Evidence in responses: limited to the subject itself, free of contradictions, and without the nodes' paths and process
//! ids, except for operators.

use muster_model::witness::{Transition, Witness};
use serde_json::{Map, Value, json};

/// Placeholder for a path in the node's own file system.
const HIDDEN: &str = "(path on the node)";
/// Members with text from inside the tenant's own cell, or that the tenant may read.
const OF_THE_CELL: [&str; 8] =
    ["exec", "expect", "stdout", "stderr", "services", "devices", "residue", "statement"];
/// Directories of nodes, independent of their settings.
const OF_THE_NODE: [&str; 4] = ["/proc/", "/sys/", "/var/lib/muster", "/run/muster"];

/// Returns the checks and findings for a response.
pub(crate) fn evidence(witness: &Witness, to_operator: bool) -> Map<String, Value> {
    let mut evidence = json!({"checked": checked(&witness.checked), "found": found(witness)});
    if !to_operator {
        hide_node(&mut evidence);
    }
    evidence.as_object().cloned().unwrap_or_default()
}

/// Flattens the checks into one list: those passed on by a step are no value of another one.
fn checked(stored: &Value) -> Value {
    let Some(checks) = stored.as_array() else { return stored.clone() };
    let flat = checks.iter().flat_map(|check| match check["found"]["checked"].as_array() {
        Some(inner) if inner.is_empty() => {
            vec![json!({"what": check["what"], "state": "no check was needed"})]
        }
        Some(inner) => inner.clone(),
        None => vec![check.clone()],
    });
    flat.collect()
}

/// Returns the findings about the subject itself. An agent's answer about a cell also has the fields of an allocation, all
/// empty, which would read as if it did not exist.
fn found(witness: &Witness) -> Value {
    let mut found = match &witness.result["cell"] {
        Value::Object(cell) => Value::Object(cell.clone()),
        _ => witness.result.clone(),
    };
    let Some(fields) = found.as_object_mut() else { return found };
    if fields.get("checked") == Some(&witness.checked) {
        fields.remove("checked");
    }
    // Destroyed is not wiped yet: the following steps wipe an allocation's devices.
    if witness.transition == Transition::Destroyed
        && let Some(residue) = fields.remove("residue")
        && residue.as_array().is_some_and(|devices| !devices.is_empty())
    {
        fields.insert("wiped_next".to_owned(), residue);
    }
    found
}

/// Removes details of a node that only operators may read.
fn hide_node(value: &mut Value) {
    match value {
        Value::String(text) => *text = without_paths(text, |_| true),
        Value::Array(values) => values.iter_mut().for_each(hide_node),
        Value::Object(fields) => {
            fields.remove("pid");
            for (name, value) in fields {
                match OF_THE_CELL.contains(&name.as_str()) {
                    true => drop_process_numbers(value),
                    false => hide_node(value),
                }
            }
        }
        _ => {}
    }
}

fn drop_process_numbers(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(drop_process_numbers),
        Value::Object(fields) => drop(fields.remove("pid")),
        _ => {}
    }
}

/// Removes the node's paths from an operation's message. Paths inside cells stay: the tenant needs them to fix the problem.
pub(crate) fn without_node_paths(text: &str) -> String {
    without_paths(text, |path| {
        OF_THE_NODE.iter().any(|root| path.starts_with(root)) || path.split('/').any(is_of_the_platform)
    })
}

/// Reports whether a path segment is a platform id or a digest: nodes name their directories this way, cells do not.
fn is_of_the_platform(part: &str) -> bool {
    let is_id = |(kind, number): (&str, &str)| {
        ["alc", "cel", "net", "nod", "op", "tsk"].contains(&kind)
            && number.len() > 20
            && number.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    part.split_once('_').is_some_and(is_id)
        || (part.len() == 64 && part.chars().all(|letter| letter.is_ascii_hexdigit()))
}

/// Replaces the absolute paths in a text that `is_hidden` selects.
fn without_paths(text: &str, is_hidden: impl Fn(&str) -> bool) -> String {
    let is_inside = |letter: char| letter.is_ascii_alphanumeric() || "_./@:+-".contains(letter);
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let before = rest[..at].chars().next_back().or_else(|| shown.chars().next_back());
        let length = rest[at..].find(|letter| !is_inside(letter)).unwrap_or(rest.len() - at);
        let path = rest[at..at + length].trim_end_matches(['.', ':']);
        // A slash inside a word, an address or an alternative starts no path.
        let begins = path.len() > 1
            && before.is_none_or(|letter| !letter.is_ascii_alphanumeric() && !":/.".contains(letter));
        shown.push_str(&rest[..at]);
        shown.push_str(if begins && is_hidden(path) { HIDDEN } else { path });
        rest = &rest[at + path.len().max(1)..];
        if path.is_empty() {
            shown.push('/');
        }
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use muster_model::witness::WitnessKind;

    use super::*;

    fn witness(transition: Transition, checked: Value, result: Value) -> Witness {
        let env = Env::for_tests(1);
        Witness {
            id: env.id(),
            subject_id: env.uuid(),
            transition,
            kind: WitnessKind::Witnessed,
            incarnation: 1,
            operation_id: None,
            node_id: None,
            task_id: None,
            actor_id: None,
            checked,
            result,
            at: env.now(),
        }
    }

    /// Evidence as written by its producers; paths are below a node's data directory.
    fn produced() -> Vec<Witness> {
        let cell_gone = json!({"present": false, "incarnation": 0, "devices": [], "amount": {}, "residue": [], "cell": {
            "present": false, "incarnation": 0, "pid": 0, "devices": [], "services": [], "left": [],
            "checked": ["the control groups below /sys/fs/cgroup/muster in every hierarchy", "the ranges of ids"]}});
        let check = json!({"what": "a check of its manifest", "number": 0, "in": "hub-0", "exec": ["/usr/bin/state"],
                           "expect": {"exit": 0}, "exit": 0, "stdout": "/home/ada: absent\n", "stderr": "", "timed_out": false});
        vec![
            witness(
                Transition::Active,
                json!({"present": true, "incarnation": 1, "address": "10.0.0.3"}),
                json!({"present": false, "incarnation": 0, "devices": [], "amount": {}, "residue": [], "cell": {
                    "present": true, "incarnation": 1, "pid": 4711, "address": "10.0.0.3", "devices": [], "left": [],
                    "services": [{"name": "web", "state": "running", "pid": 4712, "ready": true, "restarts": 0}],
                    "checked": ["process 4711 with its start time"]}}),
            ),
            witness(
                Transition::Destroyed,
                json!(["mounts and loop devices"]),
                json!({"present": false, "incarnation": 0, "devices": [], "residue": ["GPU-1", "disk"],
                       "left": [], "checked": ["mounts and loop devices"]}),
            ),
            witness(
                Transition::Destroyed,
                json!([
                    "the control groups below /sys/fs/cgroup/muster in every hierarchy",
                    "the ranges of ids"
                ]),
                cell_gone,
            ),
            witness(
                Transition::Removed,
                json!([{"what": "its cell", "state": "destroyed"}, {"what": "that nothing counts on it", "found": {"checked": [check]}}]),
                json!({}),
            ),
            witness(
                Transition::Stopped,
                json!([{"what": "what its members shared", "shared_files": "/data/site/shared", "left": 0,
                        "checked": ["the directory of net_1 on the shared file system /data/site/shared"]}]),
                json!({}),
            ),
            witness(
                Transition::Drained,
                json!([{"what": "its cell", "services": [{"name": "web", "pid": 7}]}]),
                json!({}),
            ),
        ]
    }

    #[test]
    fn no_evidence_shows_a_tenant_paths_or_process_numbers_of_a_node() {
        for witness in produced() {
            let shown = Value::Object(evidence(&witness, false)).to_string();
            for private in ["/sys/fs", "/data/site", "\"pid\""] {
                assert!(!shown.contains(private), "{private} in {shown}");
            }
            let operators = Value::Object(evidence(&witness, true)).to_string();
            assert_eq!(
                operators.contains("/sys/fs"),
                witness.checked.to_string().contains("/sys/fs"),
                "{operators}"
            );
        }
    }

    #[test]
    fn evidence_speaks_of_the_thing_and_does_not_contradict_itself() {
        let all: Vec<Map<String, Value>> = produced().iter().map(|one| evidence(one, false)).collect();
        assert_eq!(
            all[0]["found"]["present"],
            json!(true),
            "the cell is there, whatever the place's fields say"
        );
        assert_eq!(all[1]["found"].get("residue"), None);
        assert_eq!(all[1]["found"]["wiped_next"], json!(["GPU-1", "disk"]));
        assert_eq!(all[1]["found"].get("checked"), None, "it is said once");
        let removed = all[3]["checked"].as_array().unwrap();
        assert_eq!(removed[1]["exec"], json!(["/usr/bin/state"]), "a check stays one");
        assert_eq!(
            removed[1]["stdout"],
            json!("/home/ada: absent\n"),
            "what the tenant's own cell wrote is the tenant's"
        );
        let none = checked(&json!([{"what": "that nothing counts on it", "found": {"checked": []}}]));
        assert_eq!(none, json!([{"what": "that nothing counts on it", "state": "no check was needed"}]));
    }

    #[test]
    fn sentences_keep_the_paths_of_cells_and_lose_those_of_nodes() {
        let id = "cel_01kce8q2v5e9m9c1f5r0h2m3k4";
        let told =
            format!("it cannot be made: /srv/n1/cells/{id}/rootfs: No space left; see /proc/12/mountinfo.");
        assert_eq!(
            without_node_paths(&told),
            format!("it cannot be made: {HIDDEN}: No space left; see {HIDDEN}.")
        );
        for same in [
            "check 0 (/usr/bin/state unit-0, in hub-0) does not hold: exit 1",
            "/home is no allowed host directory",
            "10.0.0.0/24 and/or http://10.0.0.3:80/health a / b //",
            "cel_01kce8q2v5e9m9c1f5r0h2m3k4 (cell.create): no /",
        ] {
            assert_eq!(without_node_paths(same), same);
        }
    }
}
