//! One operation, for `muster operation get`, `cancel` and `resolve`.

use jiff::Timestamp;
use serde_json::Value;

use super::ending::{ADVISED, Beside, next, remarks, summary};
use super::{evidence, steps, text};
use crate::age::{exact, instant};
use crate::span::between;

/// Formats the operation with its steps, evidence and next step.
pub(crate) fn shown(operation: &Value, now: Timestamp) -> String {
    let mut lines = vec![format!("{}: {}", text(operation, "id"), summary(operation))];
    lines.extend(remarks(operation, now).into_iter().map(|line| format!("  {line}")));
    lines.extend(
        facts(operation, now).into_iter().map(|(name, value)| format!("{:<12} {value}", format!("{name}:"))),
    );
    lines.push("steps:".to_owned());
    let width = steps::width(operation);
    lines.extend(
        steps::of(operation).iter().map(|step| format!("  {}", steps::line(operation, step, width, now))),
    );
    let items = operation["items"].as_array().map_or(&[][..], Vec::as_slice);
    if !items.is_empty() {
        lines.push("parts:".to_owned());
        lines.extend(items.iter().map(steps::item_line));
    }
    let witnesses = evidence::of(operation);
    if !witnesses.is_empty() {
        lines.push("evidence:".to_owned());
        lines.extend(evidence::lines(witnesses, now).into_iter().map(|line| format!("  {line}")));
    }
    let next = next(operation, &Beside::default()).or_else(|| advice_at(operation));
    lines.extend(next.map(|next| format!("next:        {next}")));
    lines.into_iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns the command for advice on a failure, which is stored with the subject, not with the operation.
fn advice_at(operation: &Value) -> Option<String> {
    let noun = operation["subject_kind"].as_str().filter(|noun| ADVISED.contains(noun))?;
    (operation["state"] == "failed").then(|| format!("muster {noun} get {}", text(operation, "subject_id")))
}

fn facts(operation: &Value, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let time = |name: &str| operation[name].as_str().and_then(|text| exact(text, now));
    let moment = |name: &str| operation[name].as_str().and_then(instant);
    facts.push(("subject", format!("{} {}", text(operation, "subject_kind"), text(operation, "subject_id"))));
    let who = [text(operation, "actor_name"), text(operation, "actor_id")]
        .into_iter()
        .find(|name| !name.is_empty());
    let asked = time("created_at").map(|time| format!(", {time}")).unwrap_or_default();
    facts.push(("actor", format!("{}{asked}", who.unwrap_or_else(|| "?".to_owned()))));
    match (time("finished_at"), moment("created_at").zip(moment("finished_at"))) {
        (Some(ended), Some((made, then))) => {
            facts.push(("ended", format!("{ended}, after {}", between(made, then))))
        }
        _ => facts.extend(time("deadline_at").map(|time| ("deadline", time))),
    }
    if operation["cancel_requested"] == Value::Bool(true) {
        facts.push(("cancel", "cancellation was requested".to_owned()));
    }
    for (name, label) in
        [("supersedes", "supersedes"), ("parent_id", "parent"), ("correlation_id", "correlation")]
    {
        let value = text(operation, name);
        if !value.is_empty() {
            facts.push((label, value));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{now, operation};

    #[test]
    fn a_finished_operation_shows_its_steps_and_its_evidence() {
        let expected = "\
op_1: allocation.create of train-1 succeeded
subject:     allocation alc_1
actor:       sam@acme.example, 2026-11-15T12:25:17Z (3 s ago)
ended:       2026-11-15T12:25:19Z (now), after 2.0 s
correlation: c0ffee
steps:
  ✓ claim          finds a node (8 ms)
  ✓ prepare        provision on the node (1.0 s)
  ✓ verify_active  verify on the node (1.0 s)
evidence:
  ✓ active: verified on nod_1, 2026-11-15T12:25:19Z (now)
      checked: present: yes; devices: GPU-a, GPU-b; amount: cpus=1
      found:   the same
";
        assert_eq!(shown(&operation("succeeded"), now()), expected);
    }

    #[test]
    fn one_that_goes_on_or_is_blocked_ends_with_the_next_command() {
        let running = shown(&operation("running"), now());
        assert!(running.ends_with("next:        muster operation watch op_1\n"), "{running}");
        assert!(running.contains("deadline:    2026-11-15T12:40:17Z (in 14 min)"), "{running}");
        let failed = shown(&operation("failed"), now());
        assert!(failed.ends_with("next:        muster allocation get alc_1\n"), "{failed}");
        let blocked = shown(&operation("blocked"), now());
        assert!(blocked.contains("muster operation resolve op_1 --action retry"), "{blocked}");
    }
}
