//! App commands: the catalog, entitlements, instances, and adapter steps.

pub(crate) mod catalog;
pub(crate) mod columns;
pub(crate) mod instance;
pub(crate) mod step;

use jiff::Timestamp;
use muster_sdk::Connection;
use muster_sdk::describe::Description;
use serde_json::Value;

use crate::member::{self, at};
use crate::operate::call;
use crate::operation::{self, text, title};

/// Key of the operation added to a view. The API has no such field.
const BESIDE: &str = "operation";

/// Returns the specific view of a resource, if it has one.
pub(crate) fn own_form(words: &[&str], thing: &Value, now: Timestamp) -> Option<String> {
    match words {
        ["instance", "endpoints"] => Some(instance::endpoints(thing, now)),
        ["instance", ..] if thing["topology"].is_object() => Some(instance::shown(thing, now)),
        ["member", ..] if thing["component_key"].is_string() => Some(member::view::shown(thing, now)),
        ["adapter-step", ..] if thing["snapshot"].is_object() => Some(step::shown(thing, now)),
        ["app", "compatibility"] => Some(catalog::compatibility(thing)),
        ["entitlement", "grant"] => Some(catalog::granted(thing, now)),
        _ => None,
    }
}

/// Adds derived columns to a list row.
pub(crate) fn row(words: &[&str], thing: &mut Value) {
    match words {
        ["instance", ..] => instance::row(thing),
        ["adapter-step", ..] => step::row(thing),
        _ => {}
    }
}

/// Fetches the last operation of an instance or a member, so that its view can show a running one. An inaccessible one is
/// omitted.
pub(crate) async fn look_beside(connection: &Connection, id: &str, thing: &mut Value) {
    let last = match id {
        "instance_get" => &thing["operation_id"],
        "member_get" => &thing["last_operation_id"],
        _ => return,
    };
    let Some((last, get)) = last.as_str().zip(Description::embedded().endpoint("operation_get")) else {
        return;
    };
    if let Ok(found) = call(connection, get, &at(&[("operation", last)])).await {
        thing[BESIDE] = found;
    }
}

/// Returns the running operation in a line, and the command to follow it.
pub(crate) fn under_way(thing: &Value) -> Option<(String, String)> {
    let operation = thing.get(BESIDE)?;
    let (id, state) = (text(operation, "id"), text(operation, "state"));
    let waits = text(operation, "waiting");
    let waits = if waits.is_empty() { waits } else { format!(": {waits}") };
    match state.as_str() {
        "blocked" => {
            let why = text(&operation["blocked"], "reason");
            Some((
                format!("{id}, {}, blocked: {why}", title(operation)),
                format!("muster operation get {id}"),
            ))
        }
        _ if operation::rests(operation) => None,
        _ => Some((
            format!("{id}, {}, {state}{waits}", title(operation)),
            format!("muster operation watch {id}"),
        )),
    }
}
