//! Validates an instance's configuration against its release's schema, and the schema itself.
//!
//! The schema is the publisher's and the configuration the consumer's, and validation has bounded cost: nothing is fetched,
//! no pattern backtracks, and a schema that refers to itself is rejected, because its cost would depend on the input.

mod weigh;

use std::collections::BTreeSet;

use jsonschema::{PatternOptions, Retrieve, Uri, Validator};
use serde_json::Value;

use crate::Manifest;
use crate::explain::explain;
use crate::fault::{self, Fault};

/// Maximum size of the schema without whitespace.
const LONGEST_SCHEMA: usize = 64 * 1024;
/// Maximum size of a configuration without whitespace.
const LONGEST_CONFIG: usize = 64 * 1024;
/// Maximum memory of a compiled pattern of the schema.
const PATTERN_BYTES: usize = 256 * 1024;

/// Returns all errors in an instance's configuration, by their path under `/config`.
pub fn check_config(manifest: &Manifest, config: &Value) -> Vec<Fault> {
    if config.to_string().len() > LONGEST_CONFIG {
        let message = format!("it exceeds {LONGEST_CONFIG} bytes: leave out optional settings");
        return vec![Fault::error("/config", "too_long", message)];
    }
    // A stored release has passed the lint, but possibly that of an earlier server with fewer rules.
    let unusable = schema_faults(&manifest.config_schema, "");
    if let Some(first) = unusable.first() {
        let message = format!(
            "the release's own schema is invalid at {:?}: {}; choose another release, or report it to its publisher",
            first.path, first.message
        );
        return vec![Fault::error("/config", "config_schema", message)];
    }
    let Ok(validator) = compile(&manifest.config_schema) else { return Vec::new() };
    let errors = validator.iter_errors(config).take(fault::MOST + 1);
    let faults = errors.flat_map(|error| explain(&error, &manifest.config_schema, "/config")).collect();
    fault::bounded(faults)
}

/// Returns everything that makes a schema unusable; `at` is its path.
pub(crate) fn schema_faults(schema: &Value, at: &str) -> Vec<Fault> {
    if schema.to_string().len() > LONGEST_SCHEMA {
        let message = format!("it exceeds {LONGEST_SCHEMA} bytes: shorten it");
        return vec![Fault::error(at, "config_schema", message)];
    }
    let mut faults = weigh::faults(schema, at);
    let meta = jsonschema::draft202012::meta::validator();
    for error in meta.iter_errors(schema).take(fault::MOST) {
        faults.extend(explain(&error, &Value::Null, at));
    }
    for fault in &mut faults {
        fault.rule = "config_schema";
    }
    // The meta-schema has several parts, each of which reports the same for a value that is no schema.
    let mut seen = BTreeSet::new();
    faults.retain(|fault| seen.insert((fault.path.clone(), fault.message.clone())));
    // A schema with errors may well not compile, and would be reported twice.
    if faults.is_empty()
        && let Err(why) = compile(schema)
    {
        faults.push(why.with_prefix(at));
    }
    faults
}

/// Why a schema does not compile, and where.
struct Uncompiled {
    path: String,
    message: String,
}

impl Uncompiled {
    fn with_prefix(self, at: &str) -> Fault {
        Fault::error(format!("{at}{}", self.path), "config_schema", self.message)
    }
}

fn compile(schema: &Value) -> Result<Validator, Uncompiled> {
    jsonschema::draft202012::options()
        .with_retriever(Nothing)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES))
        .should_validate_formats(true)
        .build(schema)
        .map_err(|error| {
            let message = format!(
                "{}: patterns are regular expressions without look-around, and references begin with #",
                error
            );
            Uncompiled { path: error.instance_path().to_string(), message }
        })
}

/// A retriever that fetches nothing.
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is outside the schema, and nothing is fetched").into())
    }
}
