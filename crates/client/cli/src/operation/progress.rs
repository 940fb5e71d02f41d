//! Changes between two snapshots of an operation, one line each; and the current activity, in one line.

use jiff::Timestamp;
use serde_json::Value;

use super::steps::{self, is_under_way, mark, says};
use super::text;
use crate::age::instant;
use crate::span::between;

/// Up to this many items, each change gets a line; beyond, only each end.
const FEW: usize = 10;
/// Length of a bar.
const WIDTH: usize = 20;

/// Returns the changes since the previous snapshot, which is null at first. With a live line for the current activity
/// (`live`), only ended steps and items get their own line.
pub(crate) fn changes(before: &Value, after: &Value, live: bool, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    let is_new = |name: &str, value: &str| after[name] == value && before[name] != value;
    if after["cancel_requested"] == Value::Bool(true) && before["cancel_requested"] == Value::Bool(false) {
        lines.push("  cancellation was requested".to_owned());
    }
    if is_new("state", "compensating") {
        let why = text(after, "message");
        lines.push(format!("↺ rolling back: {}", if why.is_empty() { "it failed" } else { &why }));
    }
    let width = steps::width(after);
    for (place, step) in steps::of(after).iter().enumerate() {
        let old = &before["steps"][place];
        let told = |operation: &Value, step: &Value| (step["state"].clone(), says(operation, step));
        let changed = old.is_null() || told(before, old) != told(after, step);
        let worth_a_line = step["state"] != "pending" && !(live && is_under_way(step));
        if changed && worth_a_line {
            lines.push(steps::line(after, step, width, now));
        }
    }
    let items = after["items"].as_array().map_or(&[][..], Vec::as_slice);
    let is_many = items.len() > FEW;
    let mut ended = before["items"].as_array().into_iter().flatten().filter(|item| is_settled(item)).count();
    for item in items {
        let old = before["items"].as_array().into_iter().flatten().find(|old| old["id"] == item["id"]);
        let changed =
            old.is_none_or(|old| (&old["state"], &old["message"]) != (&item["state"], &item["message"]));
        let settled = is_settled(item);
        if settled && old.is_none_or(|old| !is_settled(old)) {
            ended += 1;
        }
        // For many items, only ended ones are printed, each with the running count.
        match (changed && (settled || !live), is_many) {
            (true, false) => lines.push(steps::item_line(item)),
            (true, true) if settled => {
                lines.push(format!("{} ({ended}/{})", steps::item_line(item), items.len()))
            }
            _ => {}
        }
    }
    lines
}

fn is_settled(item: &Value) -> bool {
    !matches!(item["state"].as_str(), Some("pending" | "running"))
}

/// `███████████████░░░░░ 37/50, 2 failed`.
fn parts_bar(items: &[Value]) -> String {
    let count = |state: &str| items.iter().filter(|item| item["state"] == state).count();
    let (done, failed, all) = (count("succeeded"), count("failed"), items.len());
    let full = WIDTH * done / all.max(1);
    let bar = format!("{}{} {done}/{all}", "█".repeat(full), "░".repeat(WIDTH - full));
    if failed == 0 { bar } else { format!("{bar}, {failed} failed") }
}

/// Returns `[✓…·] prepare: why it waits, for 12 s, at most until in 14 min`.
pub(crate) fn current(operation: &Value, now: Timestamp) -> String {
    let steps = steps::of(operation);
    let bar: String = steps.iter().map(|step| mark(step["state"].as_str().unwrap_or_default())).collect();
    let under_way = steps.iter().find(|step| is_under_way(step));
    let next = || steps.iter().find(|step| step["state"] == "pending");
    let Some(step) = under_way.or_else(next) else {
        return format!("[{bar}] {}", text(operation, "state"));
    };
    let mut line = format!("[{bar}] {}: {}", text(step, "name"), says(operation, step));
    let items = operation["items"].as_array().map_or(&[][..], Vec::as_slice);
    if !items.is_empty() {
        line.push_str(&format!(", {}", parts_bar(items)));
    }
    let since = step["started_at"].as_str().or(operation["created_at"].as_str()).and_then(instant);
    if let Some(since) = since {
        line.push_str(&format!(", for {}", whole_seconds(since, now)));
    }
    if let Some(deadline) =
        operation["deadline_at"].as_str().and_then(instant).filter(|deadline| *deadline > now)
    {
        line.push_str(&format!(", at most {} more", whole_seconds(now, deadline)));
    }
    line
}

/// Rounds to seconds: a line that is drawn every second needs no milliseconds.
fn whole_seconds(from: Timestamp, to: Timestamp) -> String {
    let seconds = (to.as_second() - from.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        _ => between(from, to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{now, operation};
    use serde_json::json;

    #[test]
    fn each_change_is_a_line_and_what_stays_the_same_is_none() {
        let (accepted, running, done) = (operation("accepted"), operation("running"), operation("succeeded"));
        assert!(changes(&Value::Null, &accepted, false, now()).is_empty());
        let claimed = "✓ claim          finds a node (8 ms)";
        let waits = "… prepare        the node has not answered yet (2.5 s)";
        assert_eq!(changes(&accepted, &running, false, now()), [claimed, waits]);
        assert!(changes(&running, &running, false, now()).is_empty());
        let mut other = running.clone();
        other["waiting"] = json!("the node was asked again");
        assert_eq!(
            changes(&running, &other, false, now()),
            ["… prepare        the node was asked again (2.5 s)"]
        );
        assert_eq!(changes(&other, &done, false, now()).len(), 2);
    }

    #[test]
    fn on_a_terminal_only_what_ended_gets_a_line_of_its_own() {
        let (accepted, running) = (operation("accepted"), operation("running"));
        assert_eq!(changes(&accepted, &running, true, now()), ["✓ claim          finds a node (8 ms)"]);
        assert_eq!(
            current(&running, now()),
            "[✓…·] prepare: the node has not answered yet, for 3 s, at most 14 min 57 s more"
        );
        assert_eq!(current(&accepted, now()), "[···] claim: finds a node, for 3 s, at most 14 min 57 s more");
    }

    #[test]
    fn turning_back_and_parts_are_told() {
        let (running, mut back) = (operation("running"), operation("compensating"));
        back["message"] = json!("the disk is full");
        back["items"] = json!([{"id": "alc_1", "name": "a", "state": "running"}, {"id": "alc_2", "name": "b", "state": "succeeded"}]);
        let told = changes(&running, &back, true, now());
        assert_eq!(told, ["↺ rolling back: the disk is full", "  ✓ b: done"]);
        assert!(current(&back, now()).contains("██████████░░░░░░░░░░ 1/2"), "{}", current(&back, now()));
    }

    #[test]
    fn of_many_parts_the_bar_says_how_far_and_only_an_end_is_a_line() {
        let whole = |done: usize, failed: usize| {
            let state = |n: usize| match n {
                n if n < done => "succeeded",
                n if n < done + failed => "failed",
                _ => "pending",
            };
            let items = (0..50)
                .map(|n| json!({"id": format!("mem_{n}"), "name": format!("unit-{n}"), "state": state(n)}));
            let mut whole = operation("running");
            whole["items"] = json!(items.collect::<Vec<_>>());
            whole
        };
        let told = changes(&whole(35, 0), &whole(36, 1), false, now());
        assert_eq!(told, ["  ✓ unit-35: done (36/50)", "  ✗ unit-36: not done (37/50)"]);
        assert!(changes(&operation("running"), &whole(0, 0), false, now()).is_empty());
        let line = current(&whole(37, 2), now());
        assert!(line.contains("██████████████░░░░░░ 37/50, 2 failed"), "{line}");
    }
}
