//! Operation commands: plan, progress, outcome, evidence and next step.
//!
//! All views are built from the response's JSON and not from the SDK's types: a state or an action that is newer than
//! this client is then shown by its own name, where a type would reject the whole response.

pub(crate) mod check;
pub(crate) mod ending;
pub(crate) mod evidence;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod started;
pub(crate) mod steps;
pub(crate) mod view;
pub(crate) mod watch;

#[cfg(test)]
pub(crate) mod samples;

use serde_json::Value;

use crate::printable::printable;

/// Returns a text member, safe to print; empty if absent.
pub(crate) fn text(thing: &Value, name: &str) -> String {
    thing[name].as_str().map(|text| printable(text).into_owned()).unwrap_or_default()
}

/// Returns the kind and subject: `allocation.create of train-1`.
pub(crate) fn title(operation: &Value) -> String {
    let named = [text(operation, "subject_name"), text(operation, "subject_id")];
    let subject = named.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "?".to_owned());
    format!("{} of {subject}", text(operation, "kind"))
}

/// Reports whether it has ended, or needs attention.
pub(crate) fn rests(operation: &Value) -> bool {
    !matches!(operation["state"].as_str(), Some("accepted" | "running" | "verifying" | "compensating"))
}

/// Removes the reason of an earlier block from a success; in a list it would look like a failure.
pub(crate) fn forget_what_was_overcome(operation: &mut Value) {
    if operation["state"] == "succeeded" {
        operation["reason"] = Value::Null;
    }
}
