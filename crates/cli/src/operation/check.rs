//! What one look of the platform was: a command that was run, where, what was expected of it and what came; or a fact. A line
//! each.

use serde_json::{Map, Value};

use super::text;
use crate::printable::printable;
use crate::table::plain;

/// So much of what a command wrote is shown; all of it is in `-o json`.
const SHOWN: usize = 100;
/// So many ids are shown of many.
const NAMED: usize = 5;

/// The lines of what was checked, where it is more than plain facts; `None` for those.
pub(crate) fn lines(checked: &Value) -> Option<Vec<String>> {
    match checked {
        Value::Array(checks) if checks.iter().any(Value::is_object) => {
            Some(checks.iter().map(line).collect())
        }
        Value::Object(components) if components.values().any(is_members) => {
            Some(components.iter().map(|(key, members)| component(key, members)).collect())
        }
        _ => None,
    }
}

fn line(check: &Value) -> String {
    let Some(fields) = check.as_object() else { return plain(check) };
    match check["exec"].as_array() {
        Some(words) => command(check, words),
        None => fact(check, fields),
    }
}

/// `in hub-0: state unit-0: expected exit=0, stdout=^IDLE$; found exit=0, stdout "IDLE"`.
fn command(check: &Value, words: &[Value]) -> String {
    let words: Vec<String> = words.iter().map(plain).collect();
    let exit = match (check["timed_out"] == Value::Bool(true), check["exit"].as_i64()) {
        (true, _) => "no end in time".to_owned(),
        (false, Some(exit)) => format!("exit={exit}"),
        (false, None) => "no exit status".to_owned(),
    };
    let mut found = vec![exit];
    for stream in ["stdout", "stderr"] {
        let wrote = excerpt(check[stream].as_str().unwrap_or_default());
        if !wrote.is_empty() {
            found.push(format!("{stream} {wrote:?}"));
        }
    }
    format!(
        "in {}: {}: expected {}; found {}",
        text(check, "in"),
        words.join(" "),
        plain(&check["expect"]),
        found.join(", ")
    )
}

fn excerpt(wrote: &str) -> String {
    let wrote = wrote.trim_end();
    let first: String = wrote.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
    let more = if first.len() < wrote.len() { "…" } else { "" };
    format!("{}{more}", printable(&first))
}

/// `its cell: incarnation=2, address=10.0.0.3`. Who asked for it and by which task is said once, above.
fn fact(check: &Value, fields: &Map<String, Value>) -> String {
    let told = fields
        .iter()
        .filter(|(name, value)| !matches!(name.as_str(), "what" | "node_id" | "task_id") && !value.is_null())
        .map(|(name, value)| format!("{}={}", printable(name), plain(value)));
    let told = told.collect::<Vec<_>>().join(", ");
    match (text(check, "what"), told) {
        (what, told) if what.is_empty() => told,
        (what, told) if told.is_empty() => what,
        (what, told) => format!("{what}: {told}"),
    }
}

fn is_members(value: &Value) -> bool {
    value.as_array().is_some_and(|members| members.iter().any(|member| member["member_id"].is_string()))
}

/// `unit: 3 members, seen by wit_1, wit_2, wit_3`.
fn component(key: &str, members: &Value) -> String {
    let members = members.as_array().map_or(&[][..], Vec::as_slice);
    let ids: Vec<String> =
        members.iter().map(|member| text(member, "witness_id")).filter(|id| !id.is_empty()).collect();
    let more = if ids.len() > NAMED { ", …" } else { "" };
    let named = ids.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    format!(
        "{}: {}, seen by {named}{more}",
        printable(key),
        crate::amount::count(members.len() as i64, "member")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_is_told_with_where_it_ran_what_was_expected_and_what_came() {
        let mut check = json!({"what": "a check of its manifest", "number": 0, "in": "hub-0", "exec": ["/bin/state", "unit-0"],
                           "expect": {"exit": 0, "stdout": "^IDLE$"}, "exit": 0, "stdout": "IDLE\n", "stderr": "",
                           "timed_out": false, "node_id": "nod_1", "task_id": "tsk_1"});
        assert_eq!(
            line(&check),
            "in hub-0: /bin/state unit-0: expected exit=0, stdout=^IDLE$; found exit=0, stdout \"IDLE\""
        );
        check["timed_out"] = json!(true);
        check["stdout"] = json!(format!("\u{1b}[2J{}\nmore", "x".repeat(200)));
        let told = line(&check);
        assert!(told.contains("found no end in time, stdout "), "{told}");
        assert!(told.ends_with("…\"") && told.len() < 300 && !told.contains('\u{1b}'), "{told:?}");
    }

    #[test]
    fn a_fact_is_told_by_its_name_and_a_component_by_its_members() {
        let cell = json!({"what": "its cell", "node_id": "nod_1", "task_id": "tsk_1", "incarnation": 2, "address": "10.0.0.3"});
        assert_eq!(line(&cell), "its cell: incarnation=2, address=10.0.0.3");
        assert_eq!(line(&json!({"what": "it is gone"})), "it is gone");
        let members: Vec<Value> = (0..7)
            .map(|n| json!({"member_id": format!("mem_{n}"), "witness_id": format!("wit_{n}")}))
            .collect();
        let told =
            lines(&json!({"hub": [{"member_id": "mem_9", "witness_id": "wit_9"}], "unit": members})).unwrap();
        assert_eq!(
            told,
            ["hub: 1 member, seen by wit_9", "unit: 7 members, seen by wit_0, wit_1, wit_2, wit_3, wit_4, …"]
        );
    }

    #[test]
    fn plain_facts_are_left_to_their_own_form() {
        assert_eq!(lines(&json!(["no place is left"])), None);
        assert_eq!(lines(&json!({"present": true, "devices": ["a"]})), None);
        assert_eq!(lines(&json!([])), None);
    }
}
