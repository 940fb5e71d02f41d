//! Fields that are no single word, as people say them: `--set worker=2` for an object in a list, `--config rate=5` for a
//! member of a document. One table says which field is said how; flags and bodies are made from it and know nothing of them.

mod components;
mod config;
mod destination;
mod own_name;

pub(crate) use destination::lacks_amounts;

use std::io::BufRead;

use clap::{Arg, ArgMatches};
use muster_sdk::describe::{Field, Operation};
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};

/// How a field is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// How many members of which components, and where.
    Components,
    /// A document of the app's own.
    Config,
    /// Where a new member goes.
    Destination,
    /// The name of an instance, which is the app's if nothing else is said.
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

/// A second word for a flag, where the first is not what people say.
const ALIASES: [(&str, &str, &str); 7] = [
    ("app_compatibility", "version", "app-version"),
    ("instance_upgrade", "app_version", "to"),
    ("quota_set", "max_allocations", "allocations"),
    ("quota_set", "max_cpus", "cpus"),
    ("quota_set", "max_disk_mb", "disk-mb"),
    ("quota_set", "max_gpus", "gpus"),
    ("quota_set", "max_memory_mb", "memory-mb"),
];

/// The form of a field that has one.
pub(crate) fn of(operation: &Operation, field: &Field) -> Option<Form> {
    let known = |(id, name, _): &&(&str, &str, Form)| *id == operation.id && *name == field.name;
    FORMS.iter().find(known).map(|(_, _, form)| *form)
}

/// The second word for a flag.
pub(crate) fn alias(operation: &Operation, field: &Field) -> Option<&'static str> {
    let known = |(id, name, _): &&(&str, &str, &str)| *id == operation.id && *name == field.name;
    ALIASES.iter().find(known).map(|(_, _, word)| *word)
}

/// Whether a command is given a whole body as a rule: then `-f FILE` says so.
pub(crate) fn is_from_a_file(operation: &Operation) -> bool {
    operation.id == "instance_apply"
}

impl Form {
    /// The flags.
    pub(crate) fn arguments(self, field: &Field) -> Vec<Arg> {
        match self {
            Form::Components => components::arguments(field),
            Form::Config => config::arguments(field),
            Form::Destination => destination::arguments(field),
            Form::OwnName => vec![own_name::argument(field)],
        }
    }

    /// Lays what was said over the document.
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

/// `worker=2` as its two halves.
fn halves<'t>(flag: &str, form: &str, text: &'t str) -> Result<(&'t str, &'t str)> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key, value)),
        _ => Err(Failure::usage(format!("--{flag} {text}: write it as {form}"))),
    }
}

/// A JSON document that stands on the command line.
fn document_of(flag: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Failure::usage(format!("--{flag} takes JSON: {error}")))
}
