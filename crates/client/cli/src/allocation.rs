//! History of an allocation: its states with their durations, and the evidence below.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::age::wall;
use crate::columns::PHASE;
use crate::operation::evidence;
use crate::span::took;
use crate::table::table;

/// The timeline.
pub(crate) fn timeline(answer: &Value, now: Timestamp) -> String {
    let phases = answer["phases"].as_array().into_iter().flatten();
    let phases: Vec<Value> = phases
        .map(|phase| {
            let mut phase = phase.clone();
            phase["since"] = json!(phase["at"].as_str().map(wall).unwrap_or_default());
            phase["for"] = json!(phase["milliseconds"].as_i64().map(took).unwrap_or_default());
            phase
        })
        .collect();
    let mut shown = if phases.is_empty() { String::new() } else { table(Some(PHASE), &phases, now) };
    let witnesses = evidence::of(answer);
    if !witnesses.is_empty() {
        shown.push_str("evidence:\n");
        shown.extend(evidence::lines(witnesses, now).into_iter().map(|line| format!("  {line}\n")));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{attested, now, seen};

    #[test]
    fn a_timeline_is_a_table_with_the_evidence_beneath() {
        let answer = json!({
            "phases": [
                {"state": "requested", "at": "2026-11-15T12:25:17.3Z", "milliseconds": 10, "operation_id": "op_1"},
                {"state": "active", "at": "2026-11-15T12:25:17.4Z", "milliseconds": 61_000, "operation_id": "op_1"},
                {"state": "released", "at": "2026-11-15T12:26:20Z", "reason": "done with it"},
            ],
            "witnesses": [seen(), attested()],
        });
        let expected = "\
STATE      SINCE                FOR        BY    WHY
requested  2026-11-15 12:25:17  10 ms      op_1
active     2026-11-15 12:25:17  1 min 1 s  op_1
released   2026-11-15 12:26:20                   done with it
evidence:
  ✓ active: verified on nod_1";
        let shown = timeline(&answer, now());
        assert!(shown.starts_with(expected), "{shown}");
        assert!(shown.contains("\n  ! wiped: ATTESTED, not verified"), "{shown}");
    }
}
