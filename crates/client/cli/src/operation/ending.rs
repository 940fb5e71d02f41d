//! Outcome of an operation: for people as text, with the next command; for scripts as an exit code.

use jiff::Timestamp;
use muster_sdk::describe::Description;
use muster_sdk::{Arguments, Connection};
use serde_json::Value;

use super::{evidence, text, title};
use crate::age::{instant, relative};
use crate::failure::{Exit, Failure};
use crate::member;
use crate::operate::call;

/// Additional data needed to suggest the next step.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The platform's advice for the subject's owner.
    pub(crate) advice: Option<String>,
    /// The operation that superseded it.
    pub(crate) heir: Option<String>,
}

impl Beside {
    /// Looks it up if the outcome needs it. Inaccessible data is omitted: the outcome itself is known.
    pub(crate) async fn of(connection: &Connection, operation: &Value) -> Self {
        match operation["state"].as_str() {
            Some("failed") => Self { advice: advice(connection, operation).await, heir: None },
            Some("superseded") => Self { advice: None, heir: heir(connection, operation).await },
            _ => Self::default(),
        }
    }
}

/// Subjects with their own advice after a failure.
pub(crate) const ADVISED: [&str; 3] = ["allocation", "instance", "member"];

async fn advice(connection: &Connection, operation: &Value) -> Option<String> {
    let kind = operation["subject_kind"].as_str().filter(|kind| ADVISED.contains(kind))?;
    let (project, subject) = (operation["project_id"].as_str()?, operation["subject_id"].as_str()?);
    let thing = if kind == "member" {
        member::find(connection, project, subject).await.ok()??
    } else {
        let get = Description::embedded().endpoint(&format!("{kind}_get"))?;
        call(connection, get, &member::at(&[("project", project), (kind, subject)])).await.ok()?
    };
    thing["advice"].as_str().map(str::to_owned)
}

async fn heir(connection: &Connection, operation: &Value) -> Option<String> {
    let list = Description::embedded().endpoint("operation_list")?;
    let wanted = [("subject", &operation["subject_id"]), ("project", &operation["project_id"])];
    let query =
        wanted.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.as_str()?.to_owned())));
    let arguments = Arguments { query: query.collect(), ..Arguments::default() };
    let page = call(connection, list, &arguments).await.ok()?;
    let heir = page["items"].as_array()?.iter().find(|other| other["supersedes"] == operation["id"])?;
    heir["id"].as_str().map(str::to_owned)
}

/// Returns the failure for an outcome that is not a success.
pub(crate) fn failure(operation: &Value, beside: &Beside, now: Timestamp) -> Option<Failure> {
    let (exit, code) = match operation["state"].as_str() {
        Some("succeeded") => return None,
        Some("failed") => (Exit::OperationFailed, "operation_failed"),
        Some("cancelled") => (Exit::OperationCancelled, "operation_cancelled"),
        Some("superseded") => (Exit::OperationSuperseded, "operation_superseded"),
        Some("blocked") => (Exit::OperationBlocked, "operation_blocked"),
        Some("partial") => (Exit::OperationPartial, "operation_partial"),
        // A state that is newer than this client does not count as a success.
        _ => (Exit::Failed, "unknown_state"),
    };
    let mut failure = Failure::new(exit, code, summary(operation));
    failure.lines = remarks(operation, now);
    failure.next = next(operation, beside);
    Some(failure)
}

/// Maximum number of blocked children shown with their actions.
const SHOWN: usize = 3;

/// Returns the blocked children that keep an operation from continuing; empty as long as anything else advances.
pub(crate) fn blocking_children(operation: &Value) -> &[Value] {
    match super::rests(operation) {
        true => &[],
        false => operation["blocked_by"].as_array().map_or(&[], Vec::as_slice),
    }
}

/// Returns the failure of a wait because of blocked children: the operation only continues after one of their actions.
pub(crate) fn blocked_by_children(operation: &Value, now: Timestamp) -> Failure {
    let children = blocking_children(operation);
    let reason = |child: &Value| text(&child["blocked"], "reason");
    let detail = match children {
        [only] => format!("{} is blocked by {}: {}", title(operation), title(only), reason(only)),
        many => format!("{} is blocked by {} child operations", title(operation), many.len()),
    };
    let mut failure = Failure::new(Exit::OperationBlocked, "operation_blocked", detail);
    for child in children.iter().take(SHOWN) {
        if children.len() > 1 {
            failure.lines.push(format!("! {}: {}", title(child), reason(child)));
        }
        failure.lines.extend(action_lines(&text(child, "operation_id"), &child["blocked"], now));
    }
    if children.len() > SHOWN {
        failure
            .lines
            .push(format!("and {} more: muster operation list --state blocked", children.len() - SHOWN));
    }
    failure.next = Some(format!(
        "fix the cause, run one of the commands above, then: muster operation watch {}",
        text(operation, "id")
    ));
    failure
}

/// Returns the outcome or state in a sentence.
pub(crate) fn summary(operation: &Value) -> String {
    let why = |otherwise: &str| {
        let reason = text(operation, "reason");
        let message = text(operation, "message").trim_end_matches('.').to_owned();
        match (reason.is_empty(), message.is_empty()) {
            (false, false) => format!(": {reason}: {message}"),
            (true, false) => format!(": {message}"),
            (false, true) => format!(": {reason}"),
            (true, true) => otherwise.to_owned(),
        }
    };
    let title = title(operation);
    match operation["state"].as_str() {
        Some("succeeded") if evidence::is_on_a_word(operation) => {
            format!("{title} succeeded, attested and not verified")
        }
        Some("succeeded") => format!("{title} succeeded"),
        Some("failed") => format!("{title} failed{}; rolled back", why("")),
        Some("cancelled") => format!("{title} was cancelled; rolled back"),
        Some("superseded") => format!("{title} was superseded by a newer operation"),
        Some("blocked") => format!("{title} is blocked: {}", text(&operation["blocked"], "reason")),
        Some("partial") => format!("{title} succeeded in part{}", why("")),
        _ => format!("{title} is {}", text(operation, "state")),
    }
}

/// Returns the details of the summary: the party that can unblock it and the actions, or the items that are not done.
pub(crate) fn remarks(operation: &Value, now: Timestamp) -> Vec<String> {
    match operation["state"].as_str() {
        Some("blocked") => action_lines(&text(operation, "id"), &operation["blocked"], now),
        Some("partial" | "failed") => {
            let items = operation["items"].as_array().into_iter().flatten();
            items.filter(|item| item["state"] != "succeeded").map(super::steps::item_line).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the party that can unblock a blocked operation, and the actions as ready-made commands.
fn action_lines(id: &str, blocked: &Value, now: Timestamp) -> Vec<String> {
    let who = match blocked["resolvable_by"].as_str() {
        Some("tenant") => "its owner or an operator can resolve it",
        Some("operator") => "an operator can resolve it; its owner can retry",
        _ => "it needs attention",
    };
    let escalates = blocked["escalates_at"].as_str().and_then(instant);
    let escalates = escalates.map(|then| match relative(now, then) {
        told if then > now => format!("; it escalates {told}"),
        told => format!("; it escalated {told}"),
    });
    let mut lines = vec![format!("{who}{}:", escalates.unwrap_or_default())];
    lines.extend(actions(id, blocked).into_iter().map(|(why, command)| format!("  {why:<28} {command}")));
    lines
}

/// Returns the actions of a blocked operation, as ready-made commands.
fn actions(id: &str, blocked: &Value) -> Vec<(&'static str, String)> {
    let actions = blocked["actions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let command = |choice: &str| format!("muster operation resolve {id} --action {choice}");
    actions
        .map(|choice| match choice {
            "retry" => ("retry:", command(choice)),
            "compensate" => ("roll back:", command(choice)),
            "accept_partial" => ("accept the partial result:", command(choice)),
            "abandon" => {
                ("give up, with a statement:", format!("{} --statement 'WHAT YOU KNOW'", command(choice)))
            }
            other => ("or:", command(other)),
        })
        .collect()
}

/// Returns the next step.
pub(crate) fn next(operation: &Value, beside: &Beside) -> Option<String> {
    let id = text(operation, "id");
    match operation["state"].as_str() {
        Some("succeeded" | "partial" | "cancelled") => None,
        Some("failed") => {
            beside.advice.clone().filter(|advice| Some(advice.as_str()) != operation["message"].as_str())
        }
        Some("superseded") => Some(match &beside.heir {
            Some(heir) => format!("muster operation watch {heir}"),
            None => format!("muster operation list --subject {}", text(operation, "subject_id")),
        }),
        Some("blocked") => {
            let guide = guide(operation);
            Some(format!("fix the cause, then choose an action; docs/guides/{guide}.md explains them"))
        }
        _ => Some(format!("muster operation watch {id}")),
    }
}

/// Returns the documentation of its actions.
fn guide(operation: &Value) -> &'static str {
    match (operation["blocked"]["resolvable_by"].as_str(), operation["subject_kind"].as_str()) {
        (Some("tenant"), Some("instance" | "member")) => "apps",
        (Some("tenant"), _) => "allocations",
        _ => "nodes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{now, operation};
    use serde_json::json;

    #[test]
    fn every_ending_has_its_exit_code() {
        let codes = [
            ("failed", 10),
            ("cancelled", 11),
            ("superseded", 12),
            ("blocked", 13),
            ("partial", 14),
            ("odd", 1),
        ];
        for (state, code) in codes {
            let failure = failure(&operation(state), &Beside::default(), now()).unwrap();
            assert_eq!(failure.exit as u8, code, "{state}");
        }
        assert!(failure(&operation("succeeded"), &Beside::default(), now()).is_none());
    }

    #[test]
    fn a_success_on_a_word_says_so() {
        let mut attested = operation("succeeded");
        assert_eq!(summary(&attested), "allocation.create of train-1 succeeded");
        attested["witnesses"] = json!([crate::operation::samples::attested()]);
        assert!(summary(&attested).ends_with("attested and not verified"));
    }

    #[test]
    fn blocked_operation_lists_its_actions_as_commands() {
        let blocked = failure(&operation("blocked"), &Beside::default(), now()).unwrap();
        assert_eq!(blocked.detail, "allocation.create of train-1 is blocked: the disk is full");
        assert_eq!(
            blocked.lines,
            [
                "an operator can resolve it; its owner can retry; it escalates in 59 min:",
                "  retry:                       muster operation resolve op_1 --action retry",
                "  roll back:                   muster operation resolve op_1 --action compensate",
                "  give up, with a statement:   muster operation resolve op_1 --action abandon --statement 'WHAT YOU KNOW'",
            ]
        );
    }

    #[test]
    fn blocked_operation_names_the_guide_of_its_resolver() {
        let guide = |by: &str, subject: &str| {
            let mut blocked = operation("blocked");
            blocked["blocked"]["resolvable_by"] = json!(by);
            blocked["subject_kind"] = json!(subject);
            next(&blocked, &Beside::default()).unwrap()
        };
        assert!(guide("tenant", "member").contains("docs/guides/apps.md"));
        assert!(guide("tenant", "instance").contains("docs/guides/apps.md"));
        assert!(guide("tenant", "allocation").contains("docs/guides/allocations.md"));
        assert!(guide("operator", "member").contains("docs/guides/nodes.md"));
    }

    #[test]
    fn failed_operation_prints_its_reason_and_advice_once() {
        let failed = operation("failed");
        let advised = |advice: &str| Beside { advice: Some(advice.to_owned()), heir: None };
        let told = failure(&failed, &advised("ask again"), now()).unwrap();
        assert_eq!(
            told.detail,
            "allocation.create of train-1 failed: prepare_failed: the disk is full; rolled back"
        );
        assert_eq!(told.next.as_deref(), Some("ask again"));
        assert_eq!(failure(&failed, &advised("the disk is full"), now()).unwrap().next, None);
    }

    #[test]
    fn superseded_operation_names_its_successor() {
        let heir = Beside { advice: None, heir: Some("op_2".to_owned()) };
        let next = |beside: &Beside| failure(&operation("superseded"), beside, now()).unwrap().next.unwrap();
        assert_eq!(next(&heir), "muster operation watch op_2");
        assert_eq!(next(&Beside::default()), "muster operation list --subject alc_1");
    }

    #[test]
    fn an_operation_with_nothing_but_blocked_children_is_blocked_for_a_wait() {
        let child = |id: &str, name: &str| {
            json!({"operation_id": id, "kind": "member.remove", "subject_kind": "member", "subject_name": name,
                   "blocked": {"reason": "no disk", "resolvable_by": "tenant", "actions": ["retry"]}})
        };
        let mut parent = operation("running");
        assert!(blocking_children(&parent).is_empty());
        parent["blocked_by"] = json!([child("op_7", "unit-0")]);
        let failure = blocked_by_children(&parent, now());
        assert_eq!(failure.exit as u8, 13);
        assert_eq!(
            failure.detail,
            "allocation.create of train-1 is blocked by member.remove of unit-0: no disk"
        );
        assert_eq!(
            failure.lines,
            [
                "its owner or an operator can resolve it:",
                "  retry:                       muster operation resolve op_7 --action retry",
            ]
        );
        assert!(failure.next.unwrap().ends_with("muster operation watch op_1"));
        parent["blocked_by"] = json!((0..5).map(|n| child("op_7", &format!("unit-{n}"))).collect::<Vec<_>>());
        let many = blocked_by_children(&parent, now());
        assert!(many.detail.ends_with("is blocked by 5 child operations"), "{}", many.detail);
        assert_eq!(many.lines[0], "! member.remove of unit-0: no disk");
        assert_eq!(many.lines.last().unwrap(), "and 2 more: muster operation list --state blocked");
        parent["state"] = json!("blocked");
        assert!(blocking_children(&parent).is_empty(), "the operation itself has actions of its own");
    }

    #[test]
    fn partial_operation_lists_its_failed_items() {
        let mut partial = operation("partial");
        partial["items"] =
            json!([{"name": "a", "state": "succeeded"}, {"name": "b", "state": "failed", "message": "gone"}]);
        assert_eq!(failure(&partial, &Beside::default(), now()).unwrap().lines, ["  ✗ b: gone"]);
    }
}
