//! Whether an instance is configured as its release wants it, and whether what the release wants can be asked at all.
//!
//! The schema is the publisher's and the configuration the consumer's, and neither may cost the server more than a bounded
//! look: nothing is fetched, no pattern backtracks, and a schema that refers to itself is refused, as what it costs would
//! depend on what it is given.

mod weigh;

use std::collections::BTreeSet;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde_json::Value;

use crate::Manifest;
use crate::explain::explain;
use crate::fault::{self, Fault};

/// The schema may be so long, written without spaces.
const LONGEST_SCHEMA: usize = 64 * 1024;
/// A configuration may be so long, written without spaces.
const LONGEST_CONFIG: usize = 64 * 1024;
/// A compiled pattern of the schema may take so much memory.
const PATTERN_BYTES: usize = 256 * 1024;

/// Everything that is wrong with an instance's configuration, by its place under `/config`.
pub fn check_config(manifest: &Manifest, config: &Value) -> Vec<Fault> {
    if config.to_string().len() > LONGEST_CONFIG {
        let says = format!("it is longer than {LONGEST_CONFIG} bytes: leave out what the app can do without");
        return vec![Fault::error("/config", "too_long", says)];
    }
    // A stored release has passed the lint, yet perhaps that of an earlier server, which knew fewer rules.
    let unusable = schema_faults(&manifest.config_schema, "");
    if let Some(first) = unusable.first() {
        let says = format!(
            "the release's own schema cannot be asked, at {:?}: {}; choose another release, or tell its publisher",
            first.path, first.says
        );
        return vec![Fault::error("/config", "config_schema", says)];
    }
    let Ok(validator) = compile(&manifest.config_schema) else { return Vec::new() };
    let errors = validator.iter_errors(config).take(fault::MOST + 1);
    let faults = errors.flat_map(|error| explain(&error, &manifest.config_schema, "/config")).collect();
    fault::bounded(faults)
}

/// Everything that keeps a schema from being asked; `at` is where it stands.
pub(crate) fn schema_faults(schema: &Value, at: &str) -> Vec<Fault> {
    if schema.to_string().len() > LONGEST_SCHEMA {
        let says = format!("it is longer than {LONGEST_SCHEMA} bytes: shorten it");
        return vec![Fault::error(at, "config_schema", says)];
    }
    let mut faults = weigh::faults(schema, at);
    let meta = jsonschema::draft202012::meta::validator();
    for error in meta.iter_errors(schema).take(fault::MOST) {
        faults.extend(explain(&error, &Value::Null, at));
    }
    for fault in &mut faults {
        fault.rule = "config_schema";
    }
    // The schema of schemas has several parts, and each of them says the same of what is no schema at all.
    let mut seen = BTreeSet::new();
    faults.retain(|fault| seen.insert((fault.path.clone(), fault.says.clone())));
    // What has a fault already may well not compile, and would be told twice.
    if faults.is_empty()
        && let Err(why) = compile(schema)
    {
        faults.push(why.with_prefix(at));
    }
    faults
}

/// Why a schema does not compile, and where in it.
struct Uncompiled {
    path: String,
    says: String,
}

impl Uncompiled {
    fn with_prefix(self, at: &str) -> Fault {
        Fault::error(format!("{at}{}", self.path), "config_schema", self.says)
    }
}

fn compile(schema: &Value) -> Result<Validator, Uncompiled> {
    jsonschema::draft202012::options()
        .with_retriever(Nothing)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES))
        .should_validate_formats(true)
        .build(schema)
        .map_err(|error| {
            let says = format!(
                "{}: patterns are regular expressions without look-around, and references begin with #",
                error
            );
            Uncompiled { path: error.instance_path().to_string(), says }
        })
}

/// Fetches nothing, whatever is named.
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} stands outside the schema, and nothing is fetched").into())
    }
}
