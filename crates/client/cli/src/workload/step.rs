//! Adapter steps.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::SNAPSHOT_MEMBER;
use crate::operation::text;
use crate::table::{lines, table};

/// Adds derived columns: an expired lease is not shown as a lease, and progress is part of the message.
pub(crate) fn row(step: &mut Value) {
    if step["state"] == "leased" {
        step["lease_ends"] = step["leased_until"].clone();
    }
    let said = [text(step, "message"), text(step, "reason")].into_iter().find(|said| !said.is_empty());
    let far = step["percent"].as_i64().map(|percent| format!("{percent}%"));
    let message: Vec<String> = far.into_iter().chain(said).collect();
    step["message"] = json!(message.join(" "));
}

/// Formats a step with a current snapshot of the instance. The manifest and the config are in `-o json`.
pub(crate) fn shown(leased: &Value, now: Timestamp) -> String {
    let mut shown = leased["step"].as_object().map(|step| lines(step, now)).unwrap_or_default();
    let snapshot = &leased["snapshot"];
    shown.push_str(&format!(
        "of the instance {} ({} {}):\n",
        text(snapshot, "instance"),
        text(snapshot, "app"),
        text(snapshot, "app_version")
    ));
    let members = snapshot["members"].as_array().map_or(&[][..], Vec::as_slice);
    let told = if members.is_empty() {
        "no member\n".to_owned()
    } else {
        table(Some(SNAPSHOT_MEMBER), members, now)
    };
    shown.extend(told.lines().map(|line| format!("  {line}\n")));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::columns;
    use crate::operation::samples::now;

    #[test]
    fn a_list_of_steps_says_who_has_them_for_how_long_and_what_they_say() {
        let mut steps = [
            json!({"id": "ast_1", "verb": "join", "member_id": "mem_1", "state": "leased", "holder": "kit-1",
                   "leased_until": "2026-11-15T12:25:43Z", "attempts": 2, "message": "waits for the hub", "percent": 40}),
            json!({"id": "ast_2", "verb": "drain", "member_id": "mem_2", "state": "failed", "holder": "kit-1",
                   "leased_until": "2026-11-15T12:25:43Z", "attempts": 1, "reason": "busy"}),
        ];
        steps.iter_mut().for_each(row);
        let expected = "\
VERB   MEMBER  STATE   HOLDER  LEASE ENDS  ATTEMPTS  MESSAGE                ID
join   mem_1   leased  kit-1   in 23 s     2         40% waits for the hub  ast_1
drain  mem_2   failed  kit-1               1         busy                   ast_2
";
        assert_eq!(table(columns(&["adapter-step", "list"]), &steps, now()), expected);
    }

    #[test]
    fn a_step_is_shown_with_the_members_it_is_told_of_and_without_the_manifest() {
        let leased = json!({
            "step": {"id": "ast_1", "verb": "join"},
            "snapshot": {"instance": "hub", "app": "notebook", "app_version": "1.0", "manifest": {"secret": "long"},
                         "members": [{"name": "unit-0", "component_key": "unit", "state": "joining", "health": "unknown",
                                      "incarnation": 1, "unreachable": false}]},
        });
        let told = shown(&leased, now());
        assert!(told.contains("verb: join\nof the instance hub (notebook 1.0):\n  NAME "), "{told}");
        assert!(told.contains("unit-0") && !told.contains("long"), "{told}");
    }
}
