//! Previous values in the audit entries of all commands that change something.

use serde_json::{Map, Value};

/// Commands without previous values in their entries, each with the reason; `*.create` has none either. Every other command
/// supplies them (`PreparedCommand::before`, or `before` in its detail); debug builds assert that, so that a missing one fails the
/// tests.
pub const WITHOUT_BEFORE: &[(&str, &str)] = &[
    ("session.delete", "ends the session of the request, which is the target"),
    ("token.issue", "creates a token"),
    ("node.enrol", "creates an enrolment"),
    ("stream.create", "opens a stream, and changes no resource"),
    ("stream.logs", "opens a stream, and changes no resource"),
    ("artifact.publish", "creates an artifact"),
    ("runtime_secret.issue", "creates a runtime secret"),
    ("app_version.publish", "creates a release"),
    ("operator_token.mint", "creates a token"),
    ("entitlement.grant", "creates an entitlement; renewing one returns the values before"),
    ("instance.apply", "may create an instance; a change returns the values before"),
    ("blob.mount", "makes a blob visible in a repository"),
    ("blob.delete", "removes content that its own digest names, which is in the detail"),
    ("manifest.push", "may create a tag; moving one returns the digest before"),
    ("manifest.delete", "a digest names the content that it removes; a tag returns the digest before"),
];

/// Reports whether a command has no previous values: it creates something, or is listed.
pub fn is_without_before(action: &str) -> bool {
    action.ends_with(".create") || WITHOUT_BEFORE.iter().any(|(name, _)| *name == action)
}

/// Members that change with every write.
const BOOKKEEPING: &[&str] = &["version", "updated_at"];

/// Returns the detail of a command's audit entry: the command's own detail and the previous values. `answer` is the response
/// body.
pub(crate) fn audit_detail(action: &str, mut detail: Value, before: Option<Value>, answer: &Value) -> Value {
    if detail.get("before").is_none()
        && let Some(before) = before
    {
        detail["before"] = difference(before, answer);
    }
    fill_absent(&mut detail);
    debug_assert!(
        detail.get("before").is_some() || detail["dry_run"] == true || is_without_before(action),
        "{action} changes something and returns no values before"
    );
    detail
}

/// Adds null for members without a previous value: events omit them, and the audit records that they were absent.
fn fill_absent(detail: &mut Value) {
    let changed: Vec<String> =
        detail["changed"].as_object().map(|changed| changed.keys().cloned().collect()).unwrap_or_default();
    if let Some(before) = detail.get_mut("before").and_then(Value::as_object_mut) {
        for name in changed {
            before.entry(name).or_insert(Value::Null);
        }
    }
}

/// Returns the previous values of the members that differ in `after`; an absent one is null. Returns all of them if `after`
/// is not a resource: it was deleted, or an operation continues the work.
fn difference(before: Value, after: &Value) -> Value {
    let (Value::Object(before), Some(after)) =
        (&before, after.as_object().filter(|_| after["version"].is_i64()))
    else {
        return before;
    };
    let is_kept = |name: &str| !BOOKKEEPING.contains(&name);
    let changed = before.iter().filter(|(name, value)| after.get(*name) != Some(value));
    let mut kept: Map<String, Value> = changed
        .filter(|(name, _)| is_kept(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for name in after.keys().filter(|name| is_kept(name) && !before.contains_key(*name)) {
        kept.insert(name.clone(), Value::Null);
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_members_that_differ_are_kept_as_they_were() {
        let before = json!({"id": "a", "state": "ready", "reason": "x", "version": 1, "updated_at": "t1"});
        let after =
            json!({"id": "a", "state": "cordoned", "revoked_at": "t2", "version": 2, "updated_at": "t2"});
        let expected = json!({"state": "ready", "reason": "x", "revoked_at": null});
        assert_eq!(difference(before.clone(), &after), expected);
        assert_eq!(difference(before.clone(), &json!({"id": "a", "removed": {}})), before);
    }

    #[test]
    fn a_command_that_gives_its_own_values_before_keeps_them() {
        let given = json!({"before": {"host": "a.example"}});
        let detail = audit_detail(
            "webhook.update",
            given.clone(),
            Some(json!({"url": "https://a.example/key"})),
            &json!({}),
        );
        assert_eq!(detail, given);
    }

    #[test]
    fn a_member_without_a_value_before_is_null() {
        let told = json!({"changed": {"max_gpus": 8}, "before": {}});
        let detail = audit_detail("quota.set", told, None, &json!({}));
        assert_eq!(detail["before"], json!({"max_gpus": null}));
    }

    #[test]
    #[should_panic(expected = "returns no values before")]
    fn a_change_without_values_before_is_a_bug() {
        audit_detail("node.cordon", json!({"name": "n1"}), None, &json!({}));
    }
}
