//! Steps, one line each: a mark, the name, its message, and its duration.

use jiff::Timestamp;
use serde_json::Value;

use super::{evidence, text};
use crate::age::instant;
use crate::span::between;

/// Returns the mark of a step or an item, by state. An unknown one is shown as a question, not as a success.
pub(crate) fn mark(state: &str) -> char {
    match state {
        "pending" => '·',
        "running" => '…',
        "blocked" => '!',
        "done" | "succeeded" => '✓',
        "failed" => '✗',
        "undoing" | "undone" => '↺',
        "skipped" => '-',
        _ => '?',
    }
}

/// Returns the steps of an operation or of a plan.
pub(crate) fn of(thing: &Value) -> &[Value] {
    thing["steps"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the width of the name column.
pub(crate) fn width(thing: &Value) -> usize {
    of(thing).iter().map(|step| text(step, "name").chars().count()).max().unwrap_or(0)
}

/// Reports whether the step is in progress, forwards or in a rollback.
pub(crate) fn is_under_way(step: &Value) -> bool {
    matches!(step["state"].as_str(), Some("running" | "undoing"))
}

/// Returns a step's text: what it waits for, its message, or else its description.
pub(crate) fn says(operation: &Value, step: &Value) -> String {
    let waiting = if is_under_way(step) { text(operation, "waiting") } else { String::new() };
    // The message of an earlier attempt is stale while the step is retried.
    let said = if step["state"] == "running" { String::new() } else { text(step, "message") };
    let words =
        [waiting, said, text(step, "does")].into_iter().find(|words| !words.is_empty()).unwrap_or_default();
    if step["state"] == "undoing" { format!("undoing: {words}") } else { words }
}

/// Formats a step as a line.
pub(crate) fn line(operation: &Value, step: &Value, width: usize, now: Timestamp) -> String {
    let state = step["state"].as_str().unwrap_or_default();
    let is_on_a_word = rests_on_a_word(operation, step);
    let mark = if is_on_a_word { '!' } else { mark(state) };
    let mut line = format!("{mark} {:<width$}  {}", text(step, "name"), says(operation, step));
    if is_on_a_word {
        line.push_str(" [ATTESTED, not verified]");
    }
    if let Some(time) = duration(step, now) {
        line.push_str(&format!(" ({time})"));
    }
    line
}

/// Reports whether the evidence of a step is an attestation. It must not look like a check.
fn rests_on_a_word(operation: &Value, step: &Value) -> bool {
    let id = &step["witness_id"];
    let witness = evidence::of(operation).iter().find(|witness| !id.is_null() && witness["id"] == *id);
    witness.is_some_and(evidence::is_word)
}

/// Returns the duration so far. A retried step keeps the end of its last attempt, which does not count.
fn duration(step: &Value, now: Timestamp) -> Option<String> {
    let started = instant(step["started_at"].as_str()?)?;
    let ended = step["ended_at"].as_str().and_then(instant).filter(|_| !is_under_way(step));
    Some(between(started, ended.unwrap_or(now)))
}

/// Formats an item of a bulk operation as a line.
pub(crate) fn item_line(item: &Value) -> String {
    let state = item["state"].as_str().unwrap_or_default();
    let said = text(item, "message");
    let words = if said.is_empty() { printable_state(state).to_owned() } else { said };
    format!("  {} {}: {words}", mark(state), text(item, "name"))
}

fn printable_state(state: &str) -> &str {
    match state {
        "pending" => "waits",
        "running" => "in progress",
        "blocked" => "blocked",
        "succeeded" => "done",
        "failed" => "not done",
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{now, operation};
    use serde_json::json;

    #[test]
    fn a_step_is_a_line_with_mark_name_words_and_duration() {
        let running = operation("running");
        let lines: Vec<String> =
            of(&running).iter().map(|step| line(&running, step, width(&running), now())).collect();
        assert_eq!(
            lines,
            [
                "✓ claim          finds a node (8 ms)",
                "… prepare        the node has not answered yet (2.5 s)",
                "· verify_active  verify on the node",
            ]
        );
    }

    #[test]
    fn a_step_that_is_tried_again_shows_neither_its_old_words_nor_its_old_end() {
        let mut again = operation("running");
        again["waiting"] = Value::Null;
        again["steps"][1]["message"] = json!("it failed once");
        again["steps"][1]["ended_at"] = json!("2026-11-15T12:25:17.5Z");
        assert_eq!(line(&again, &again["steps"][1], 7, now()), "… prepare  provision on the node (2.5 s)");
    }

    #[test]
    fn a_step_on_an_operators_word_does_not_look_like_one_that_was_checked() {
        let mut attested = operation("succeeded");
        attested["witnesses"] = json!([crate::operation::samples::attested()]);
        attested["steps"][2]["witness_id"] = json!("wit_2");
        let told = line(&attested, &attested["steps"][2], 0, now());
        assert_eq!(told, "! verify_active  verify on the node [ATTESTED, not verified] (1.0 s)");
    }

    #[test]
    fn undoing_and_failed_steps_print_their_reason() {
        let mut failed = operation("compensating");
        failed["waiting"] = json!("the node is asked");
        failed["steps"][0]["state"] = json!("undoing");
        failed["steps"][1] = json!({"name": "prepare", "state": "failed", "message": "no disk", "does": "x"});
        assert_eq!(
            line(&failed, &failed["steps"][0], 0, now()),
            "↺ claim  undoing: the node is asked (2.6 s)"
        );
        assert_eq!(line(&failed, &failed["steps"][1], 0, now()), "✗ prepare  no disk");
        assert_eq!(mark("a state of tomorrow"), '?');
    }
}
