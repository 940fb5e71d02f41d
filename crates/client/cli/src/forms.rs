//! Structured fields as flags: `--set worker=2` for an object in a list, `--config rate=5` for a member of a document.
//! One table maps fields to forms; flags and bodies are derived from it.

mod components;
mod config;
mod destination;
mod own_name;

pub(crate) use destination::lacks_amounts;

use std::io::BufRead;

use clap::{Arg, ArgMatches};
use muster_sdk::describe::{Endpoint, Field};
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};

/// Form of a structured field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Component counts and their allocations.
    Components,
    /// The app's own configuration document.
    Config,
    /// Allocation for a new member.
    Destination,
    /// Name of an instance; default: the app's.
    OwnName,
}

const FORMS: [(&str, &str, Form); 9] = [
    ("instance_apply", "components", Form::Components),
    ("instance_apply", "config", Form::Config),
    ("instance_apply", "name", Form::OwnName),
    ("instance_create", "components", Form::Components),
    ("instance_create", "config", Form::Config),
    ("instance_create", "name", Form::OwnName),
    ("instance_scale", "components", Form::Components),
    ("instance_upgrade", "config", Form::Config),
    ("member_add", "allocation", Form::Destination),
];

/// Aliases of flags, where the API's name is uncommon.
const ALIASES: [(&str, &str, &str); 7] = [
    ("app_compatibility", "version", "app-version"),
    ("instance_upgrade", "app_version", "to"),
    ("quota_set", "max_allocations", "allocations"),
    ("quota_set", "max_cpus", "cpus"),
    ("quota_set", "max_disk_mb", "disk-mb"),
    ("quota_set", "max_gpus", "gpus"),
    ("quota_set", "max_memory_mb", "memory-mb"),
];

/// Returns the form of a field, if any.
pub(crate) fn of(operation: &Endpoint, field: &Field) -> Option<Form> {
    let known = |(id, name, _): &&(&str, &str, Form)| *id == operation.id && *name == field.name;
    FORMS.iter().find(known).map(|(_, _, form)| *form)
}

/// Returns the alias of a flag.
pub(crate) fn alias(operation: &Endpoint, field: &Field) -> Option<&'static str> {
    let known = |(id, name, _): &&(&str, &str, &str)| *id == operation.id && *name == field.name;
    ALIASES.iter().find(known).map(|(_, _, word)| *word)
}

/// Reports whether a command usually takes a whole body, as `-f FILE`.
pub(crate) fn is_from_a_file(operation: &Endpoint) -> bool {
    operation.id == "instance_apply"
}

impl Form {
    /// Returns the flags.
    pub(crate) fn arguments(self, field: &Field) -> Vec<Arg> {
        match self {
            Form::Components => components::arguments(field),
            Form::Config => config::arguments(field),
            Form::Destination => destination::arguments(field),
            Form::OwnName => vec![own_name::argument(field)],
        }
    }

    /// Overlays the document with the flags.
    pub(crate) fn fill(
        self,
        field: &Field,
        matches: &ArgMatches,
        document: &mut Map<String, Value>,
        input: &mut dyn BufRead,
    ) -> Result<()> {
        match self {
            Form::Components => components::fill(field, matches, document),
            Form::Config => config::fill(field, matches, document, input),
            Form::Destination => destination::fill(field, matches, document),
            Form::OwnName => own_name::fill(field, matches, document),
        }
    }
}

/// Splits `worker=2`.
fn halves<'t>(flag: &str, form: &str, text: &'t str) -> Result<(&'t str, &'t str)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key, value)),
        _ => Err(Failure::usage(format!("--{flag} {text}: write it as {form}"))),
    }
}

/// Parses a JSON document on the command line.
fn document_of(flag: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Failure::usage(format!("--{flag} takes JSON: {error}")))
}
