//! Operations at the terminal: what was accepted, how far it is, how it ended, how we know, and what to do next.
//!
//! Everything is made from the answer's JSON and not from the SDK's types: a state or a choice that is younger than this
//! client is then shown by its own word, where a type would refuse the whole answer.

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

/// A member that is a text, ready to be shown; nothing if it is not there.
pub(crate) fn text(thing: &Value, name: &str) -> String {
    thing[name].as_str().map(|text| printable(text).into_owned()).unwrap_or_default()
}

/// What it does to which thing: `allocation.create of train-1`.
pub(crate) fn title(operation: &Value) -> String {
    let named = [text(operation, "subject_name"), text(operation, "subject_id")];
    let subject = named.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "?".to_owned());
    format!("{} of {subject}", text(operation, "kind"))
}

/// Whether it rests: it has ended, or only a person can make it go on.
pub(crate) fn rests(operation: &Value) -> bool {
    !matches!(operation["state"].as_str(), Some("accepted" | "running" | "verifying" | "compensating"))
}

/// A success keeps the reason for which it was once parked; in a list that reads as if it had failed.
pub(crate) fn forget_what_was_overcome(operation: &mut Value) {
    if operation["state"] == "succeeded" {
        operation["reason"] = Value::Null;
    }
}
