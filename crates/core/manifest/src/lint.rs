//! Reports everything that is wrong with a manifest in one pass: first by its schema, then by rules that a schema cannot
//! express.
//!
//! The rules work on the raw document, each on the parts that it can read. Rules over the typed manifest were rejected: one
//! missing field would hide every other error.

mod checks;
mod components;
mod names;
mod permissions;
mod services;

use serde_json::Value;

use crate::config::schema_faults;
use crate::fault::{self, At, Fault};
use crate::schema;

/// Context of the lint besides the manifest.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// All permissions, as `noun.verb`.
    pub known_permissions: &'a [&'a str],
    /// Permissions that an adapter's account may have.
    pub grantable: &'a [&'a str],
}

/// Maximum size of a manifest without whitespace.
const LONGEST: usize = 256 * 1024;

/// Returns everything that is wrong with a manifest. It can be published if none of it is an error.
pub fn lint(document: &Value, context: &Context<'_>) -> Vec<Fault> {
    if document.to_string().len() > LONGEST {
        let says = format!("it exceeds {LONGEST} bytes: shorten it, or move long parts into an artifact");
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
