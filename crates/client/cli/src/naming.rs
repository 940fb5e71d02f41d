//! Positional arguments for fields of the body: the name of a new resource, like that of an existing one. `muster
//! allocation create train-1` is the short form; `--name train-1` is equivalent, for existing scripts.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use muster_sdk::describe::{Endpoint, Field, FieldKind};
use serde_json::{Value, json};

use crate::flags::{BODY, help, is_place};
use crate::{forms, member};

/// Prefix of the positional argument's id.
const POSITION: &str = "position:";

/// Commands with another positional field than the name of the new resource.
const SAID: [(&str, &str); 9] = [
    ("entitlement_grant", "app"),
    ("instance_apply", "app"),
    ("instance_create", "app"),
    ("member_add", "component_key"),
    ("member_drain", "members"),
    ("member_recover", "members"),
    ("member_remove", "members"),
    ("member_replace", "members"),
    ("member_resume", "members"),
];

/// Returns the positional field of the body. By default it is the required name of a new resource, if there is no other
/// positional argument.
pub(crate) fn naming(operation: &Endpoint) -> Option<&Field> {
    let mut fields = operation.body_fields.iter().flatten();
    if let Some((_, said)) = SAID.iter().find(|(id, _)| *id == operation.id) {
        return fields.find(|field| field.name == *said);
    }
    let is_alone = operation.path_params.iter().all(|field| is_place(operation, field))
        && operation.query_params.iter().all(|field| !field.required);
    let names = |field: &&Field| {
        field.required && field.kind == FieldKind::Text && matches!(field.name.as_str(), "name" | "slug")
    };
    fields.find(names).filter(|_| is_alone)
}

/// Adds the positional argument to a command, after those of its path. Exactly one of the positional argument, the flag
/// or a whole body is required.
pub(crate) fn with_name(command: Command, operation: &Endpoint, words: &str) -> Command {
    let Some(field) = naming(operation) else { return command };
    let (position, flag, word) = (position(&field.name), format!("{BODY}{}", field.name), word(field));
    let before: Vec<&Field> =
        operation.path_params.iter().filter(|field| !is_place(operation, field)).collect();
    let name = Arg::new(position.clone())
        .value_name(word.clone())
        .index(before.len() + 1)
        .conflicts_with(flag.clone())
        .help(help(field));
    let many = field.kind == FieldKind::Texts;
    let name = if many { name.action(ArgAction::Append).num_args(1..) } else { name };
    let before: String = before.iter().map(|field| format!("<{}> ", field.name.to_uppercase())).collect();
    let (open, close) = if member::may_be_one_word(operation) { ("[", "]") } else { ("<", ">") };
    let many = if many { "…" } else { "" };
    let said = match forms::is_from_a_file(operation) {
        true => format!("<-f FILE|{word}>"),
        false => format!("{open}{word}{close}{many}"),
    };
    let command = command.arg(name).override_usage(format!("muster {words} {before}{said} [OPTIONS]"));
    // With a member in one word, only the part after the slash counts.
    if member::may_be_one_word(operation) {
        return command;
    }
    command
        .group(ArgGroup::new("named").args([position, flag, "body".to_owned()]).multiple(true).required(true))
}

/// Returns `MEMBER` for `members`, `COMPONENT` for `component_key`.
pub(crate) fn word(field: &Field) -> String {
    let name = match field.kind {
        FieldKind::Texts => field.name.strip_suffix('s').unwrap_or(&field.name),
        _ => field.name.strip_suffix("_key").unwrap_or(&field.name),
    };
    name.to_uppercase()
}

/// Returns the id of a field's positional argument.
pub(crate) fn position(field: &str) -> String {
    format!("{POSITION}{field}")
}

/// Returns the value of the positional argument.
pub(crate) fn named(field: &Field, matches: &ArgMatches) -> Option<Value> {
    let mut given = matches.try_get_many::<String>(&position(&field.name)).ok().flatten()?;
    Some(match field.kind {
        FieldKind::Texts => json!(given.collect::<Vec<_>>()),
        _ => json!(given.next()?),
    })
}
