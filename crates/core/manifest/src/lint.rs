//! Everything that is wrong with a manifest, in one pass: what its schema says, and then what a schema cannot say.
//!
//! The rules work on the raw document, each on whatever it can read there. Rules over the typed manifest were rejected: one
//! field that is missing would hide every other fault until it is there.

mod checks;
mod components;
mod names;
mod permissions;
mod services;

use serde_json::Value;

use crate::config::schema_faults;
use crate::fault::{self, At, Fault};
use crate::schema;

/// What a manifest is held against beside itself.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Every permission that there is, as `noun.verb`.
    pub known_permissions: &'a [&'a str],
    /// Those of them that an adapter's account may be given.
    pub grantable: &'a [&'a str],
}

/// A manifest may be so long, written without spaces.
const LONGEST: usize = 256 * 1024;

/// Everything that is wrong with a manifest. It can be published if none of it is an error.
pub fn lint(document: &Value, context: &Context<'_>) -> Vec<Fault> {
    if document.to_string().len() > LONGEST {
        let says =
            format!("it is longer than {LONGEST} bytes: shorten it, or put what is long into an artifact");
        return vec![Fault::error("", "too_long", says)];
    }
    let mut faults = schema::shape_faults(document);
    let shapely = faults.is_empty();
    let root = At::root(document);
    names::unique(&root, &mut faults);
    components::whole(&root, &mut faults);
    for component in root.get("components").items() {
        components::each(&component, &mut faults);
        services::each(&component, &mut faults);
    }
    checks::all(&root, &mut faults);
    permissions::all(&root, context, &mut faults);
    let config_schema = root.get("config_schema");
    if let Some(value) = config_schema.value.filter(|value| value.is_object()) {
        faults.extend(schema_faults(value, &config_schema.path));
    }
    if shapely && let Err(unreadable) = schema::read(document) {
        faults.extend(unreadable);
    }
    fault::bounded(faults)
}
