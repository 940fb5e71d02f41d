//! Converts the fields of an endpoint to the flags of a command.

use clap::{Arg, ArgAction, ValueHint, value_parser};
use muster_sdk::describe::{Endpoint, Field, FieldKind};

use crate::contract::Contract;
use crate::forms;
use crate::member;
use crate::naming::{naming, word};
use crate::secret;
use crate::words::{Words, kebab};

/// Location of an argument in a request; a prefix of the argument's id.
pub(crate) const PATH: &str = "path:";
pub(crate) const QUERY: &str = "query:";
pub(crate) const BODY: &str = "body:";
/// Prefix of the flag that empties a list or a map.
pub(crate) const EMPTY: &str = "empty:";

/// Returns every argument of a command, in the order of the help.
pub(crate) fn arguments(operation: &Endpoint) -> Vec<Arg> {
    let mut arguments = Vec::new();
    let mut position = 1;
    for field in &operation.path_params {
        arguments.push(if is_place(operation, field) {
            place(field)
        } else {
            member::path_position(operation, positional(field, PATH, &mut position))
        });
    }
    for field in &operation.query_params {
        arguments.push(match (field.required, field.name.as_str()) {
            (true, _) => positional(field, QUERY, &mut position),
            (false, "labels") => flag(field, QUERY).short('l'),
            (false, _) => with_alias(flag(field, QUERY), operation, field),
        });
    }
    if has_default_project(operation) {
        arguments.push(Arg::new("platform").long("platform").action(ArgAction::SetTrue).help(
            match operation.id.as_str() {
                "can_i" => "Use the platform's scope, whatever the profile's project",
                _ => "Include all projects and nodes; for operators",
            },
        ));
    }
    if is_list(operation) {
        arguments.push(Arg::new("all").long("all").action(ArgAction::SetTrue).help("Fetch all pages"));
    }
    if let Some(fields) = &operation.body_fields {
        let partial = operation.method == "PATCH";
        for field in fields.iter().filter(|field| !secret::is_encoding(operation, field)) {
            match forms::of(operation, field) {
                Some(form) => arguments.extend(form.arguments(field)),
                None => arguments.push(body_flag(operation, field)),
            }
            if has_file(operation, field) {
                arguments.push(file_flag(field));
            }
            if partial && matches!(field.kind, FieldKind::Texts | FieldKind::TextMap) {
                arguments.push(empty_flag(field));
            }
        }
        if !fields.is_empty() {
            arguments.push(whole_body(operation));
        }
    }
    if operation.needs_idempotency_key {
        let help = "Your own key: repeating the command with it has one effect [default: a random one]";
        arguments.push(Arg::new("idempotency-key").long("idempotency-key").value_name("KEY").help(help));
    }
    if operation.if_match {
        let help = "The expected version, or * for any [default: the current one]";
        arguments.push(Arg::new("if-match").long("if-match").value_name("VERSION").help(help));
    }
    arguments
}

/// Returns the argument that fills a field of the body, as a user types it: `--wait-until`, `MEMBER`, `--set`. None for a
/// field that the command does not have.
pub(crate) fn typed_for(operation: &Endpoint, name: &str) -> Option<String> {
    let field = operation.body_fields.iter().flatten().find(|field| field.name == name)?;
    if naming(operation).is_some_and(|positional| positional.name == name) {
        return Some(word(field));
    }
    let arguments = match forms::of(operation, field) {
        Some(form) => form.arguments(field),
        None => vec![body_flag(operation, field)],
    };
    arguments.iter().find_map(Arg::get_long).map(|long| format!("--{long}"))
}

/// Reports whether a path parameter is only the scope: the tenant or project that contains the resource. Its default
/// comes from the profile.
pub(crate) fn is_place(operation: &Endpoint, field: &Field) -> bool {
    let noun = Words::of(operation).noun;
    matches!(field.name.as_str(), "tenant" | "project") && noun != Some(kebab(&field.name))
}

/// Reports whether the response is paged.
pub(crate) fn is_list(operation: &Endpoint) -> bool {
    operation.query_params.iter().any(|field| field.name == "page_size")
}

fn place(field: &Field) -> Arg {
    let name = &field.name;
    let help =
        format!("The {name}, by name or id [env: MUSTER_{}] [default: the profile's]", name.to_uppercase());
    Arg::new(format!("{PATH}{}", field.name))
        .long(field.name.clone())
        .value_name(field.name.to_uppercase())
        .help(help)
}

fn positional(field: &Field, group: &str, position: &mut usize) -> Arg {
    let arg = Arg::new(format!("{group}{}", field.name))
        .value_name(field.name.to_uppercase())
        .required(true)
        .index(*position)
        .help(help(field));
    *position += 1;
    arg
}

fn flag(field: &Field, group: &str) -> Arg {
    let arg = Arg::new(format!("{group}{}", field.name)).long(kebab(&field.name)).help(help(field));
    let arg = arg.value_name(value_name(field));
    match &field.kind {
        FieldKind::Integer => arg.value_parser(value_parser!(i64)),
        FieldKind::Boolean => arg
            .value_parser(value_parser!(bool))
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        FieldKind::Word(words) => arg.value_parser(clap::builder::PossibleValuesParser::new(words.clone())),
        FieldKind::Texts | FieldKind::TextMap => arg.action(ArgAction::Append),
        FieldKind::Text | FieldKind::Json => arg,
    }
}

/// Reports whether a field is better read from a file: a multi-line key or a manifest does not fit on a command line.
pub(crate) fn has_file(operation: &Endpoint, field: &Field) -> bool {
    matches!(
        (operation.id.as_str(), field.name.as_str()),
        ("key_create", "public_key") | ("app_version_publish", "manifest")
    )
}

/// The argument that names the file.
pub(crate) const FILE: &str = "file";

fn file_flag(field: &Field) -> Arg {
    Arg::new(FILE)
        .long(FILE)
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .conflicts_with(format!("{BODY}{}", field.name))
        .help(format!("{} A file that contains it", sentence(&field.description)))
}

fn with_alias(arg: Arg, operation: &Endpoint, field: &Field) -> Arg {
    match forms::alias(operation, field) {
        Some(word) => arg.visible_alias(word),
        None => arg,
    }
}

fn body_flag(operation: &Endpoint, field: &Field) -> Arg {
    if secret::is_content(operation, field) {
        return secret::argument(field);
    }
    if field.secret {
        // Other users could read a secret on a command line, and it would stay in the shell's history.
        let help = format!(
            "{} A file that contains it, or - for the next line of standard input",
            sentence(&field.description)
        );
        return Arg::new(format!("{BODY}{}", field.name))
            .long(format!("{}-file", kebab(&field.name)))
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .help(help);
    }
    let mut arg = flag(field, BODY);
    if matches!(field.kind, FieldKind::Texts | FieldKind::TextMap) {
        arg = arg.long(singular(&field.name)).alias(kebab(&field.name));
    }
    if Contract::embedded().is_time(&operation.id, &field.name) {
        let form = "A time, or a duration from now: 2026-11-15T18:00:00Z, 30m, 2h, 3d.";
        arg = arg.value_name("TIME").help(format!("{} {form}", sentence(&field.description)));
    }
    arg = with_alias(arg, operation, field);
    if naming(operation).is_some_and(|name| name.name == field.name) {
        return arg.help("The same as a flag");
    }
    if has_file(operation, field) {
        return arg.required_unless_present_any(["body", FILE]);
    }
    if field.required && !is_looked_up(operation, field) { arg.required_unless_present("body") } else { arg }
}

/// Reports whether the command looks up a required field itself unless it is given.
pub(crate) fn is_looked_up(operation: &Endpoint, field: &Field) -> bool {
    operation.id == "node_approve" && field.name == "digest"
}

/// Reports whether a filter defaults to the profile's project. Only where most callers would be denied otherwise.
pub(crate) fn has_default_project(operation: &Endpoint) -> bool {
    matches!(operation.id.as_str(), "operation_list" | "can_i")
}

fn empty_flag(field: &Field) -> Arg {
    Arg::new(format!("{EMPTY}{}", field.name))
        .long(format!("no-{}", kebab(&field.name)))
        .action(ArgAction::SetTrue)
        .conflicts_with(format!("{BODY}{}", field.name))
        .help(format!("Clear {}", field.name.replace('_', " ")))
}

fn whole_body(operation: &Endpoint) -> Arg {
    let help = "The whole request as JSON from a file, or - for standard input; flags override its fields";
    let body = Arg::new("body").long("body").value_name("FILE").value_hint(ValueHint::FilePath).help(help);
    if forms::is_from_a_file(operation) { body.short('f').visible_alias(FILE) } else { body }
}

pub(crate) fn help(field: &Field) -> String {
    let mut text = sentence(&field.description);
    if matches!(field.kind, FieldKind::Texts | FieldKind::TextMap) {
        text.push_str(" Can be given several times.");
    }
    if let Some(example) = &field.example {
        text.push_str(&format!(" For example {example}."));
    }
    if field.required {
        text.push_str(" [required]");
    }
    text
}

pub(crate) fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

fn value_name(field: &Field) -> String {
    match &field.kind {
        FieldKind::TextMap => "KEY=VALUE".to_owned(),
        FieldKind::Integer => "N".to_owned(),
        FieldKind::Boolean => "true|false".to_owned(),
        FieldKind::Json => "JSON".to_owned(),
        FieldKind::Texts => singular(&field.name).replace('-', "_").to_uppercase(),
        FieldKind::Text | FieldKind::Word(_) => field.name.to_uppercase(),
    }
}

/// Returns the singular for repeatable flags: `labels` becomes `--label`.
fn singular(name: &str) -> String {
    let name = kebab(name);
    name.strip_suffix('s').map_or(name.clone(), str::to_owned)
}
