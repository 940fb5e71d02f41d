//! A check of the platform: a command with its location, expectation and output; or a fact.

use serde_json::{Map, Value};

use super::text;
use crate::printable::printable;
use crate::table::plain;

/// Maximum length of a line, and number of output lines shown; `-o json` has everything.
const SHOWN: usize = 100;
const LINES: usize = 20;
/// Maximum number of ids shown.
const NAMED: usize = 5;

/// Returns the lines of a check, unless it consists of plain facts.
pub(crate) fn lines(checked: &Value) -> Option<Vec<String>> {
    match checked {
        Value::Array(checks) if checks.iter().any(Value::is_object) => {
            Some(checks.iter().flat_map(one).collect())
        }
        Value::Object(components) if components.values().any(is_members) => {
            Some(components.iter().map(|(key, members)| component(key, members)).collect())
        }
        _ => None,
    }
}

fn one(check: &Value) -> Vec<String> {
    let Some(fields) = check.as_object() else { return vec![plain(check)] };
    match check["exec"].as_array() {
        Some(words) => command(check, words),
        None => vec![fact(check, fields)],
    }
}

/// Returns `in hub-0: state unit-0: expected exit=0, stdout=^IDLE$; found exit=0, stdout "IDLE"`; multi-line output
/// follows below.
fn command(check: &Value, words: &[Value]) -> Vec<String> {
    let words: Vec<String> = words.iter().map(plain).collect();
    let exit = match (check["timed_out"] == Value::Bool(true), check["exit"].as_i64()) {
        (true, _) => "timed out".to_owned(),
        (false, Some(exit)) => format!("exit={exit}"),
        (false, None) => "no exit status".to_owned(),
    };
    let mut found = vec![exit];
    let mut below = Vec::new();
    for stream in ["stdout", "stderr"] {
        let wrote: Vec<&str> = check[stream].as_str().unwrap_or_default().trim_end().lines().collect();
        match wrote[..] {
            [] => {}
            [only] => found.push(format!("{stream} {:?}", excerpt(only))),
            ref many => {
                found.push(format!("{stream} of {} lines", many.len()));
                below.extend(many.iter().take(LINES).map(|line| format!("  | {}", excerpt(line))));
                if many.len() > LINES {
                    below.push(format!("  | … {} more lines", many.len() - LINES));
                }
            }
        }
    }
    let heading = format!(
        "in {}: {}: expected {}; found {}",
        text(check, "in"),
        words.join(" "),
        plain(&check["expect"]),
        found.join(", ")
    );
    std::iter::once(heading).chain(below).collect()
}

fn excerpt(line: &str) -> String {
    let shown: String = line.chars().take(SHOWN).collect();
    let more = if shown.len() < line.len() { "…" } else { "" };
    format!("{}{more}", printable(&shown))
}

/// Returns `its cell: incarnation=2, address=10.0.0.3`. The requester and the task are printed once, above.
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

/// Returns `unit: 3 members, verified by wit_1, wit_2, wit_3`.
fn component(key: &str, members: &Value) -> String {
    let members = members.as_array().map_or(&[][..], Vec::as_slice);
    let ids: Vec<String> =
        members.iter().map(|member| text(member, "witness_id")).filter(|id| !id.is_empty()).collect();
    let more = if ids.len() > NAMED { ", …" } else { "" };
    let named = ids.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    format!(
        "{}: {}, verified by {named}{more}",
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
            one(&check).join("\n"),
            "in hub-0: /bin/state unit-0: expected exit=0, stdout=^IDLE$; found exit=0, stdout \"IDLE\""
        );
        check["timed_out"] = json!(true);
        check["stdout"] = json!(format!("\u{1b}[2J{}", "x".repeat(200)));
        let told = one(&check).join("\n");
        assert!(told.contains("found timed out, stdout "), "{told}");
        assert!(told.ends_with("…\"") && told.len() < 300 && !told.contains('\u{1b}'), "{told:?}");
    }

    #[test]
    fn output_of_several_lines_is_shown_with_the_line_that_matched() {
        let wrote: String = (0..30).map(|n| format!("line-{n}\r\n")).collect();
        let check = json!({"in": "hub-0", "exec": ["/bin/info"], "expect": {"stdout": "role:master"}, "exit": 0,
                           "stdout": format!("# Replication\nrole:master\nconnected:2\n"), "stderr": wrote});
        let told = one(&check);
        assert!(told[0].ends_with("found exit=0, stdout of 3 lines, stderr of 30 lines"), "{told:?}");
        assert_eq!(told[1..4], ["  | # Replication", "  | role:master", "  | connected:2"]);
        assert_eq!(told.last().unwrap(), "  | … 10 more lines");
        assert!(
            told.iter().all(|line| !line.contains('\u{fffd}')),
            "a line's end is no part of it: {told:?}"
        );
    }

    #[test]
    fn a_fact_is_told_by_its_name_and_a_component_by_its_members() {
        let cell = json!({"what": "its cell", "node_id": "nod_1", "task_id": "tsk_1", "incarnation": 2, "address": "10.0.0.3"});
        assert_eq!(one(&cell), ["its cell: incarnation=2, address=10.0.0.3"]);
        assert_eq!(one(&json!({"what": "it is gone"})), ["it is gone"]);
        let members: Vec<Value> = (0..7)
            .map(|n| json!({"member_id": format!("mem_{n}"), "witness_id": format!("wit_{n}")}))
            .collect();
        let told =
            lines(&json!({"hub": [{"member_id": "mem_9", "witness_id": "wit_9"}], "unit": members})).unwrap();
        assert_eq!(
            told,
            [
                "hub: 1 member, verified by wit_9",
                "unit: 7 members, verified by wit_0, wit_1, wit_2, wit_3, wit_4, …"
            ]
        );
    }

    #[test]
    fn plain_facts_are_left_to_their_own_form() {
        assert_eq!(lines(&json!(["no sandbox is left"])), None);
        assert_eq!(lines(&json!({"present": true, "devices": ["a"]})), None);
        assert_eq!(lines(&json!([])), None);
    }
}
