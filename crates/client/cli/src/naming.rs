//! What stands in a position though the API has it in the body: the name of what is made, like the name of what is there.
//! `muster allocation create train-1` reads as it is said; `--name train-1` means the same, for scripts that were written
//! before.

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use muster_sdk::describe::{Field, FieldKind, Operation};
use serde_json::{Value, json};

use crate::flags::{BODY, help, is_place};
use crate::{forms, member};

/// Marks the position; with the field's name it is the argument's id.
const POSITION: &str = "position:";

/// Where the sentence is about something else than the name of what is made, or has more than one word for it.
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

/// The field of the body that has a position. Where nothing else is said it is the name of what is made, if nothing else is a
/// position and there must be a name.
pub(crate) fn naming(operation: &Operation) -> Option<&Field> {
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

/// Gives a command the position, behind those of its path. One of the three ways must be taken: the position, the flag, or a
/// whole body.
pub(crate) fn with_name(command: Command, operation: &Operation, words: &str) -> Command {
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
    // Of a member in one word, the part behind the stroke is what was meant.
    if member::may_be_one_word(operation) {
        return command;
    }
    command
        .group(ArgGroup::new("named").args([position, flag, "body".to_owned()]).multiple(true).required(true))
}

/// `MEMBER` for `members`, `COMPONENT` for `component_key`.
fn word(field: &Field) -> String {
    let name = match field.kind {
        FieldKind::Texts => field.name.strip_suffix('s').unwrap_or(&field.name),
        _ => field.name.strip_suffix("_key").unwrap_or(&field.name),
    };
    name.to_uppercase()
}

/// The id of the position of a field.
pub(crate) fn position(field: &str) -> String {
    format!("{POSITION}{field}")
}

/// What stands in the position.
pub(crate) fn named(field: &Field, matches: &ArgMatches) -> Option<Value> {
    let mut given = matches.try_get_many::<String>(&position(&field.name)).ok().flatten()?;
    Some(match field.kind {
        FieldKind::Texts => json!(given.collect::<Vec<_>>()),
        _ => json!(given.next()?),
    })
}
