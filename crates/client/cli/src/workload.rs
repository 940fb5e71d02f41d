//! Apps and what runs of them, at the terminal: the catalog, rights to launch, instances, and the steps of adapters.

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

/// Where the operation stands that was fetched for a view. The API has no such field.
const BESIDE: &str = "operation";

/// What has a form of its own.
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

/// Makes the row of a list say what takes more than a field.
pub(crate) fn row(words: &[&str], thing: &mut Value) {
    match words {
        ["instance", ..] => instance::row(thing),
        ["adapter-step", ..] => step::row(thing),
        _ => {}
    }
}

/// Fetches the operation that last worked on an instance or a member, so that its view can say whether something is under
/// way. What cannot be seen is left out: the thing itself is known.
pub(crate) async fn look_beside(connection: &Connection, id: &str, thing: &mut Value) {
    let last = match id {
        "instance_get" => &thing["operation_id"],
        "member_get" => &thing["last_operation_id"],
        _ => return,
    };
    let Some((last, get)) = last.as_str().zip(Description::embedded().operation("operation_get")) else {
        return;
    };
    if let Ok(found) = call(connection, get, &at(&[("operation", last)])).await {
        thing[BESIDE] = found;
    }
}

/// The operation under way, in a line, and the command that goes on from there.
pub(crate) fn under_way(thing: &Value) -> Option<(String, String)> {
    let operation = thing.get(BESIDE)?;
    let (id, state) = (text(operation, "id"), text(operation, "state"));
    let waits = text(operation, "waiting");
    let waits = if waits.is_empty() { waits } else { format!(": {waits}") };
    match state.as_str() {
        "parked" => {
            let why = text(&operation["parked"], "reason");
            Some((format!("{id}, {}, parked: {why}", title(operation)), format!("muster operation get {id}")))
        }
        _ if operation::rests(operation) => None,
        _ => Some((
            format!("{id}, {}, {state}{waits}", title(operation)),
            format!("muster operation watch {id}"),
        )),
    }
}
