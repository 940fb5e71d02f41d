//! `--config rate=5 --config name=hub`, or `--config-file FILE`: the app's configuration. A value that parses as JSON is
//! used as such, so that numbers are numbers; any other value is text.

use std::io::BufRead;

use clap::{Arg, ArgAction, ArgMatches, ValueHint};
use muster_sdk::describe::Field;
use serde_json::{Map, Value, json};

use super::{document_of, halves};
use crate::collect::object_from;
use crate::failure::{Failure, Result};
use crate::flags::{BODY, help};

const FILE: &str = "config-file";

pub(super) fn arguments(field: &Field) -> Vec<Arg> {
    let form =
        "KEY=VALUE, several times, or all as JSON; a value that is JSON is taken as JSON, else as text.";
    vec![
        Arg::new(format!("{BODY}{}", field.name))
            .long("config")
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .help(format!("{} {form}", help(field))),
        Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .help("The same as JSON from a file, or - for standard input; --config overrides its fields"),
    ]
}

pub(super) fn fill(
    field: &Field,
    matches: &ArgMatches,
    document: &mut Map<String, Value>,
    input: &mut dyn BufRead,
) -> Result<()> {
    if let Some(source) = matches.get_one::<String>(FILE) {
        document.insert(field.name.clone(), Value::Object(object_from(FILE, source, input)?));
    }
    for text in matches.get_many::<String>(&format!("{BODY}{}", field.name)).into_iter().flatten() {
        let config = document.entry(field.name.clone()).or_insert_with(|| json!({}));
        let Value::Object(config) = config else {
            return Err(Failure::usage(format!("/{}: it must be an object", field.name)));
        };
        if text.trim_start().starts_with('{') {
            let Value::Object(whole) = document_of("config", text)? else { continue };
            config.extend(whole);
            continue;
        }
        let (key, value) = match text.strip_suffix('=') {
            Some(key) if !key.is_empty() && !key.contains('=') => (key, ""),
            _ => halves("config", "KEY=VALUE, or as a JSON object", text)?,
        };
        config.insert(key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value)));
    }
    Ok(())
}
