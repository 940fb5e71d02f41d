//! Children of a bulk operation: each is an operation with its own steps and evidence. A few are shown while they run;
//! for many, the bar suffices.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_sdk::Connection;
use muster_sdk::describe::Endpoint;
use serde_json::Value;

use super::steps::{self, is_under_way, mark, says};
use super::{evidence, rests, text};
use crate::member::at;
use crate::operate::call;

/// Maximum number of children shown individually. Each costs a request per poll.
const FEW: usize = 10;

/// Last snapshot of the children, by id.
#[derive(Default)]
pub(crate) struct Parts {
    seen: BTreeMap<String, Value>,
}

impl Parts {
    /// Polls the children that have not ended, and returns a line per change. Inaccessible ones are omitted: the parent
    /// has their state.
    pub(crate) async fn look(
        &mut self,
        connection: &Connection,
        get: &Endpoint,
        whole: &Value,
        live: bool,
        detailed: bool,
        now: Timestamp,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, id) in few(whole) {
            let before = self.seen.get(id).cloned().unwrap_or(Value::Null);
            if rests(&before) && !before.is_null() && before["state"] != "blocked" {
                continue;
            }
            let Ok(after) = call(connection, get, &at(&[("operation", id)])).await else { continue };
            lines.extend(news(&name, &before, &after, live, detailed, now));
            self.seen.insert(id.to_owned(), after);
        }
        lines
    }

    /// Returns the running children, one line each, for below the parent's line.
    pub(crate) fn under_way(&self, whole: &Value) -> Vec<String> {
        let known = few(whole).into_iter().filter_map(|(name, id)| Some((name, self.seen.get(id)?)));
        let moving = known.filter(|(_, part)| !rests(part) || part["state"] == "blocked");
        moving.map(|(name, part)| line(&name, part)).collect()
    }
}

/// Returns the names and operations of the children, if they are few.
fn few(whole: &Value) -> Vec<(String, &str)> {
    let items = whole["items"].as_array().map_or(&[][..], Vec::as_slice);
    if items.len() > FEW {
        return Vec::new();
    }
    items.iter().filter_map(|item| Some((text(item, "name"), item["operation_id"].as_str()?))).collect()
}

/// `    … unit-0 [✓…·] provision: its cell is being made`.
fn line(name: &str, part: &Value) -> String {
    let all = steps::of(part);
    let bar: String = all.iter().map(|step| mark(step["state"].as_str().unwrap_or_default())).collect();
    if part["state"] == "blocked" {
        let why = text(&part["blocked"], "reason");
        return format!("    ! {name} [{bar}] blocked: {why}; muster operation get {}", text(part, "id"));
    }
    match all.iter().find(|step| is_under_way(step)) {
        Some(step) => format!("    … {name} [{bar}] {}: {}", text(step, "name"), says(part, step)),
        None => format!("    … {name} [{bar}] {}", text(part, "state")),
    }
}

/// Returns the changes of a child: its step, unless a live line shows it, and new evidence.
fn news(
    name: &str,
    before: &Value,
    after: &Value,
    live: bool,
    detailed: bool,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = Vec::new();
    let worth_a_line = !rests(after) || after["state"] == "blocked";
    if !live && worth_a_line && (before.is_null() || line(name, before) != line(name, after)) {
        lines.push(line(name, after));
    }
    let fresh = evidence::fresh(before, after);
    let told = match detailed {
        true => evidence::lines(&fresh, now),
        false => evidence::summaries(name, &fresh, now),
    };
    lines.extend(told.into_iter().enumerate().map(|(place, told)| match place {
        0 if detailed => format!("    {name}: {told}"),
        _ => format!("    {told}"),
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{now, operation};
    use serde_json::json;

    #[test]
    fn child_is_printed_once_with_its_step_and_evidence() {
        let (running, done) = (operation("running"), operation("succeeded"));
        let waits = "    … unit-0 [✓…·] prepare: the node has not answered yet";
        assert_eq!(news("unit-0", &Value::Null, &running, false, false, now()), [waits]);
        assert!(news("unit-0", &running, &running, false, false, now()).is_empty());
        assert!(
            news("unit-0", &Value::Null, &running, true, false, now()).is_empty(),
            "a terminal has a line for that"
        );
        assert_eq!(
            news("unit-0", &running, &done, false, false, now()),
            ["    ✓ unit-0 active (verified on nod_1)"]
        );
        let told = news("unit-0", &running, &done, false, true, now());
        assert!(told[0].starts_with("    unit-0: ✓ active: verified on nod_1"), "{told:?}");
        assert!(news("unit-0", &done, &done, false, false, now()).is_empty());
    }

    #[test]
    fn a_blocked_part_names_the_command_that_shows_its_choices() {
        let told = news("unit-0", &operation("running"), &operation("blocked"), false, false, now());
        assert_eq!(told, ["    ! unit-0 [✓✗·] blocked: the disk is full; muster operation get op_1"]);
    }

    #[test]
    fn of_many_none_is_asked_for() {
        let item = |n: usize| json!({"id": format!("mem_{n}"), "name": format!("unit-{n}"), "operation_id": format!("op_{n}")});
        let of = |count: usize| few(&json!({"items": (0..count).map(item).collect::<Vec<_>>()})).len();
        assert_eq!((of(10), of(11)), (10, 0));
        assert!(few(&json!({"items": [{"id": "mem_1", "name": "unit-0", "state": "pending"}]})).is_empty());
    }
}
