//! Evidence: checks, the agent that ran them, and their time. An operator's attestation must never look like it.

use jiff::Timestamp;
use serde_json::Value;

use super::{check, text};
use crate::age::exact;
use crate::printable::printable;
use crate::table::plain;

/// Returns each witness in one line, for progress: `✓ lab-worker-1 active (3 checks passed)`. An attestation has its
/// statement below.
pub(crate) fn summaries(subject: &str, witnesses: &[Value], now: Timestamp) -> Vec<String> {
    witnesses.iter().flat_map(|witness| summary(subject, witness, now)).collect()
}

fn summary(subject: &str, witness: &Value, now: Timestamp) -> Vec<String> {
    if is_word(witness) {
        return one(witness, now);
    }
    let subject = if subject.is_empty() { String::new() } else { format!("{subject} ") };
    vec![format!("✓ {subject}{} ({})", text(witness, "transition"), extent(witness))]
}

/// Returns the number of checks.
fn extent(witness: &Value) -> String {
    if witness["kind"] == "lost" {
        return "lost: verified dead".to_owned();
    }
    let count = |number: usize, what: &str| crate::amount::count(number as i64, what);
    match &witness["evidence"]["checked"] {
        Value::Array(checks) if !checks.is_empty() => format!("{} passed", count(checks.len(), "check")),
        Value::Object(components) if components.values().all(Value::is_array) && !components.is_empty() => {
            let members = components.values().filter_map(Value::as_array).map(Vec::len).sum();
            format!("{} verified", count(members, "member"))
        }
        _ => match text(witness, "node_id") {
            node if node.is_empty() => "verified".to_owned(),
            node => format!("verified on {node}"),
        },
    }
}

/// Returns each witness in a few lines, for below a heading.
pub(crate) fn lines(witnesses: &[Value], now: Timestamp) -> Vec<String> {
    witnesses.iter().flat_map(|witness| one(witness, now)).collect()
}

/// Returns the witnesses of an operation or a timeline.
pub(crate) fn of(thing: &Value) -> &[Value] {
    thing["witnesses"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the witnesses added since the previous snapshot, which may be null.
pub(crate) fn fresh(before: &Value, after: &Value) -> Vec<Value> {
    let known = |witness: &&Value| of(before).iter().any(|old| old["id"] == witness["id"]);
    of(after).iter().filter(|witness| !known(witness)).cloned().collect()
}

/// Reports whether any of it is an attestation.
pub(crate) fn is_on_a_word(thing: &Value) -> bool {
    of(thing).iter().any(is_word)
}

/// Reports whether a witness is an attestation. A kind that is newer than this client counts as one: it must not look
/// like a check.
pub(crate) fn is_word(witness: &Value) -> bool {
    !matches!(witness["kind"].as_str(), Some("witnessed" | "lost"))
}

fn one(witness: &Value, now: Timestamp) -> Vec<String> {
    let transition = text(witness, "transition");
    let when = witness["at"].as_str().and_then(|at| exact(at, now)).unwrap_or_default();
    let (checked, found) = (&witness["evidence"]["checked"], &witness["evidence"]["found"]);
    if is_word(witness) {
        let statement =
            found["statement"].as_str().map_or_else(|| plain(found), |said| printable(said).into_owned());
        let mut lines = vec![format!(
            "! {transition}: {}, not verified: attested by {}, {when}",
            text(witness, "kind").to_uppercase(),
            text(witness, "actor_id")
        )];
        // If the attestation belongs to another resource that this depends on, its statement is shown there.
        if !statement.is_empty() {
            lines.push(format!("    statement: {statement}"));
        }
        lines.extend(check::lines(checked).into_iter().flatten().map(|check| format!("    {check}")));
        return lines;
    }
    let place = match text(witness, "node_id") {
        node if node.is_empty() => "by the platform".to_owned(),
        node => format!("on {node}"),
    };
    let how = if witness["kind"] == "lost" { "LOST, verified dead" } else { "verified" };
    let mut lines = vec![format!("✓ {transition}: {how} {place}, {when}")];
    if let Some(checks) = check::lines(checked) {
        lines.extend(checks.into_iter().map(|check| format!("    {check}")));
        // The number of checks is redundant.
        let found = found.as_object().into_iter().flatten().filter(|(name, _)| *name != "checks");
        let found: serde_json::Map<String, Value> =
            found.map(|(name, value)| (name.clone(), value.clone())).collect();
        if !found.is_empty() {
            lines.push(format!("    found:   {}", words(&Value::Object(found))));
        }
        return lines;
    }
    if !is_empty(checked) {
        lines.push(format!("    checked: {}", words(checked)));
    }
    if agrees(checked, found) {
        lines.push("    found:   the same".to_owned());
    } else if !is_empty(found) {
        lines.push(format!("    found:   {}", words(found)));
    }
    lines
}

/// Reports whether everything expected was found. Additional empty findings are irrelevant.
fn agrees(checked: &Value, found: &Value) -> bool {
    let (Some(checked), Some(found)) = (checked.as_object(), found.as_object()) else { return false };
    let as_expected = |(name, value): (&String, &Value)| match checked.get(name) {
        Some(expected) => same(expected, value),
        None => is_empty(value),
    };
    checked.keys().all(|name| found.contains_key(name)) && found.iter().all(as_expected)
}

/// Compares devices regardless of their order.
fn same(expected: &Value, found: &Value) -> bool {
    match (expected.as_array(), found.as_array()) {
        (Some(expected), Some(found)) => {
            expected.len() == found.len() && expected.iter().all(|item| found.contains(item))
        }
        _ => expected == found,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Returns `present: yes; devices: a, b`. Empty values are omitted.
fn words(value: &Value) -> String {
    let is_nothing = |value: &Value| match value {
        Value::Object(fields) => fields.values().all(|value| value == 0),
        other => is_empty(other) || other == 0,
    };
    match value {
        Value::Object(fields) => {
            let told = fields.iter().filter(|(_, value)| !is_nothing(value));
            let told = told.map(|(name, value)| format!("{}: {}", printable(name), plain(value)));
            told.collect::<Vec<_>>().join("; ")
        }
        other => plain(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{attested, now, seen};
    use serde_json::json;

    #[test]
    fn evidence_is_printed_with_its_node_and_time() {
        assert_eq!(
            lines(&[seen()], now()),
            [
                "✓ active: verified on nod_1, 2026-11-15T12:25:19Z (now)",
                "    checked: present: yes; devices: GPU-a, GPU-b; amount: cpus=1",
                "    found:   the same",
            ]
        );
        let mut other = seen();
        other["evidence"]["found"]["devices"] = json!(["GPU-a"]);
        assert_eq!(lines(&[other], now())[2], "    found:   present: yes; devices: GPU-a; amount: cpus=1");
        let gone = json!({"present": false, "incarnation": 0, "amount": {"cpus": 0}, "residue": []});
        assert_eq!(words(&gone), "present: no");
        let listed = json!({"kind": "witnessed", "transition": "retired", "node_id": "nod_1", "at": "?",
                            "evidence": {"checked": ["no sandbox is left"], "found": {"sandboxes": []}}});
        assert_eq!(lines(&[listed], now())[1], "    checked: no sandbox is left");
    }

    #[test]
    fn progress_shows_one_line_a_witness_and_never_an_attestation_as_a_check() {
        let witness = json!({"kind": "witnessed", "transition": "active", "evidence": {"checked": [{"what": "a"}, {"what": "b"}]}});
        assert_eq!(summaries("unit-0", &[witness], now()), ["✓ unit-0 active (2 checks passed)"]);
        assert_eq!(summaries("", &[seen()], now()), ["✓ active (verified on nod_1)"]);
        let running = json!({"kind": "witnessed", "transition": "running",
                             "evidence": {"checked": {"hub": [{"member_id": "mem_1"}], "unit": [{"member_id": "mem_2"}]}}});
        assert_eq!(summaries("lab", &[running], now()), ["✓ lab running (2 members verified)"]);
        let mut lost = seen();
        (lost["kind"], lost["transition"]) = (json!("lost"), json!("drained"));
        assert_eq!(
            summaries("unit-0", std::slice::from_ref(&lost), now()),
            ["✓ unit-0 drained (lost: verified dead)"]
        );
        assert!(!is_on_a_word(&json!({"witnesses": [lost]})), "a proof of death is evidence");
        let word = summaries("unit-0", &[attested()], now());
        assert!(word[0].starts_with("! wiped: ATTESTED") && word.len() == 2, "{word:?}");
    }

    #[test]
    fn the_checks_of_a_member_are_a_line_each() {
        let witness = json!({"id": "wit_3", "kind": "witnessed", "transition": "drained", "node_id": "nod_1", "at": "?",
        "evidence": {"found": {"checks": 2}, "checked": [
            {"what": "its cell", "incarnation": 2, "node_id": "nod_1", "task_id": "tsk_1"},
            {"what": "a check of its manifest", "in": "hub-0", "exec": ["/bin/state"], "expect": {"exit": 0}, "exit": 0},
        ]}});
        assert_eq!(
            lines(std::slice::from_ref(&witness), now()),
            [
                "✓ drained: verified on nod_1, ",
                "    its cell: incarnation=2",
                "    in hub-0: /bin/state: expected exit=0; found exit=0",
            ]
        );
        let (one, both) = (json!({"witnesses": [seen()]}), json!({"witnesses": [seen(), witness]}));
        assert_eq!(fresh(&one, &both).len(), 1);
        assert_eq!(fresh(&Value::Null, &both).len(), 2);
        assert!(fresh(&both, &both).is_empty());
    }

    #[test]
    fn an_operators_word_cannot_be_taken_for_evidence() {
        let told = lines(&[attested()], now());
        assert!(told[0].starts_with("! wiped: ATTESTED, not verified: attested by usr_op"), "{told:?}");
        assert_eq!(told[1], "    statement: its disks were pulled");
        assert!(told.iter().all(|line| !line.contains('✓')));
        let mut rests = attested();
        rests["evidence"] = json!({"checked": [{"what": "its allocation", "state": "released", "witness_id": "wit_9"}], "found": {}});
        let told = lines(&[rests], now());
        assert_eq!(told[1..], ["    its allocation: state=released, witness_id=wit_9"]);
        let mut unknown = seen();
        unknown["kind"] = json!("guessed");
        assert!(
            lines(&[unknown], now())[0].starts_with('!'),
            "what is not known to be seen is not shown as seen"
        );
    }
}
