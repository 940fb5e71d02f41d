//! The name of what is made: a position, like the name of what is there. `muster allocation create train-1` reads as it is
//! said; `--name train-1` means the same, for scripts that were written before.

use clap::{Arg, ArgGroup, ArgMatches, Command};
use muster_sdk::describe::{Field, FieldKind, Operation};

use crate::flags::{BODY, help, is_place};

/// Marks the position; with the field's name it is the argument's id.
const POSITION: &str = "position:";

/// The field that names what is made: only where nothing else is a position, and where there must be a name.
pub(crate) fn naming(operation: &Operation) -> Option<&Field> {
    let is_alone = operation.path_params.iter().all(|field| is_place(operation, field))
        && operation.query_params.iter().all(|field| !field.required);
    let names = |field: &&Field| {
        field.required && field.kind == FieldKind::Text && matches!(field.name.as_str(), "name" | "slug")
    };
    operation.body_fields.iter().flatten().find(names).filter(|_| is_alone)
}

/// Gives a command the position. One of the three ways must be taken: the position, the flag, or a whole body.
pub(crate) fn with_name(command: Command, operation: &Operation, words: &str) -> Command {
    let Some(field) = naming(operation) else { return command };
    let (position, flag, word) =
        (format!("{POSITION}{}", field.name), format!("{BODY}{}", field.name), field.name.to_uppercase());
    let name = Arg::new(position.clone())
        .value_name(word.clone())
        .index(1)
        .conflicts_with(flag.clone())
        .help(help(field));
    command
        .arg(name)
        .group(ArgGroup::new("named").args([position, flag, "body".to_owned()]).multiple(true).required(true))
        .override_usage(format!("muster {words} <{word}> [OPTIONS]"))
}

/// The name that stands in the position.
pub(crate) fn named(field: &Field, matches: &ArgMatches) -> Option<String> {
    matches.try_get_one::<String>(&format!("{POSITION}{}", field.name)).ok().flatten().cloned()
}
