//! Converts the flags of a command to the arguments of a call.

use std::io::{BufRead, IsTerminal};

use clap::ArgMatches;
use jiff::Timestamp;
use muster_sdk::Arguments;
use muster_sdk::describe::{Endpoint, Field, FieldKind};
use serde_json::{Map, Value, json};

use crate::contract::Contract;
use crate::failure::{Failure, Result};
use crate::flags::{BODY, EMPTY, FILE, PATH, QUERY, has_default_project, has_file, is_place};
use crate::naming::named;
use crate::span::moment;
use crate::words::kebab;
use crate::{forms, member, secret};

/// Collects the arguments of an endpoint. `default` returns the tenant and project of the profile.
pub(crate) fn collect(
    operation: &Endpoint,
    matches: &ArgMatches,
    default: impl Fn(&str) -> Option<String>,
    input: &mut dyn BufRead,
    now: Timestamp,
) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    for field in &operation.path_params {
        let given = matches.get_one::<String>(&format!("{PATH}{}", field.name)).cloned();
        let value = given.or_else(|| is_place(operation, field).then(|| default(&field.name)).flatten());
        // A member may be given together with its instance in one word.
        if value.is_none() && member::may_be_one_word(operation) && field.name == "member" {
            continue;
        }
        let value = value.ok_or_else(|| missing_place(&field.name))?;
        arguments.path.insert(field.name.clone(), value);
    }
    for field in &operation.query_params {
        if let Some(value) = value(field, QUERY, matches)? {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            arguments.query.push((field.name.clone(), text));
        }
    }
    let has_place = arguments.query.iter().any(|(name, _)| matches!(name.as_str(), "project" | "tenant"));
    if has_default_project(operation) && !has_place && !matches.get_flag("platform") {
        let takes = |name: &str| operation.query_params.iter().any(|field| field.name == name);
        let place = ["project", "tenant"].into_iter().filter(|name| takes(name));
        let place = place.filter_map(|name| Some((name.to_owned(), default(name)?))).next();
        arguments.query.extend(place);
    }
    if operation.body_fields.is_some() {
        arguments.body = Some(body(operation, matches, input, now)?);
    }
    member::take_apart(operation, &mut arguments)?;
    arguments.idempotency_key = text(matches, "idempotency-key");
    arguments.if_match = text(matches, "if-match").map(|version| match version.parse::<u64>() {
        Ok(number) => format!("\"{number}\""),
        Err(_) => version,
    });
    Ok(arguments)
}

fn missing_place(name: &str) -> Failure {
    let variable = name.to_uppercase();
    Failure::usage(format!("no {name} selected")).next(format!(
        "add --{name} {variable}, set MUSTER_{variable}, or keep one in the profile: `muster profile use NAME --{name} {variable}`"
    ))
}

fn text(matches: &ArgMatches, id: &str) -> Option<String> {
    matches.try_get_one::<String>(id).ok().flatten().cloned()
}

/// Returns the body: the given document, overlaid with the flags.
fn body(
    operation: &Endpoint,
    matches: &ArgMatches,
    input: &mut dyn BufRead,
    now: Timestamp,
) -> Result<Value> {
    let mut document = match text(matches, "body") {
        Some(source) => {
            let flag = if forms::is_from_a_file(operation) { "file" } else { "body" };
            object_from(flag, &source, input)?
        }
        None => Map::new(),
    };
    for field in operation.body_fields.iter().flatten() {
        if secret::is_content(operation, field) {
            let ask = || std::io::stdin().is_terminal().then(|| ask_twice("content")).transpose();
            secret::fill(matches, &mut document, input, ask)?;
            continue;
        }
        if secret::is_encoding(operation, field) {
            continue;
        }
        if let Some(form) = forms::of(operation, field) {
            form.fill(field, matches, &mut document, input)?;
            continue;
        }
        if has_file(operation, field)
            && let Some(path) = text(matches, FILE)
        {
            let read = std::fs::read_to_string(&path);
            let read = read.map_err(|error| Failure::usage(format!("{path} cannot be read: {error}")))?;
            let read = match field.kind {
                FieldKind::Json => serde_json::from_str(&read)
                    .map_err(|error| Failure::usage(format!("{path} is not JSON: {error}")))?,
                _ => Value::String(read),
            };
            document.insert(field.name.clone(), read);
            continue;
        }
        let given = if field.secret {
            password(field, matches, document.contains_key(&field.name), input)?.map(Value::String)
        } else {
            named(field, matches).or(value(field, BODY, matches)?)
        };
        let given = match given {
            Some(Value::String(text)) if Contract::embedded().is_time(&operation.id, &field.name) => {
                Some(Value::String(moment(&kebab(&field.name), &text, now)?))
            }
            other => other,
        };
        if let Some(value) = given {
            document.insert(field.name.clone(), value);
        }
    }
    Ok(Value::Object(document))
}

/// Reads a JSON object from a file or from standard input.
pub(crate) fn object_from(flag: &str, source: &str, input: &mut dyn BufRead) -> Result<Map<String, Value>> {
    let text = if source == "-" { std::io::read_to_string(input) } else { std::fs::read_to_string(source) };
    let text = text.map_err(|error| Failure::usage(format!("--{flag} {source} cannot be read: {error}")))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(document)) => Ok(document),
        Ok(_) => Err(Failure::usage(format!("--{flag} {source} must be a JSON object"))),
        Err(error) => Err(Failure::usage(format!("--{flag} {source} is not JSON: {error}"))),
    }
}

/// Returns the value of a flag, converted to its field's type.
fn value(field: &Field, group: &str, matches: &ArgMatches) -> Result<Option<Value>> {
    let id = format!("{group}{}", field.name);
    if matches!(matches.try_get_one::<bool>(&format!("{EMPTY}{}", field.name)), Ok(Some(true))) {
        return Ok(Some(if field.kind == FieldKind::Texts { json!([]) } else { json!({}) }));
    }
    Ok(match &field.kind {
        FieldKind::Text | FieldKind::Word(_) => matches.get_one::<String>(&id).map(|text| json!(text)),
        FieldKind::Integer => matches.get_one::<i64>(&id).map(|number| json!(number)),
        FieldKind::Boolean => matches.get_one::<bool>(&id).map(|truth| json!(truth)),
        FieldKind::Texts => matches.get_many::<String>(&id).map(|texts| json!(texts.collect::<Vec<_>>())),
        FieldKind::TextMap => match matches.get_many::<String>(&id) {
            Some(pairs) => Some(Value::Object(pairs.map(|pair| pair_of(pair)).collect::<Result<_>>()?)),
            None => None,
        },
        FieldKind::Json => {
            match matches.get_one::<String>(&id) {
                Some(text) => Some(serde_json::from_str(text).map_err(|error| {
                    Failure::usage(format!("--{} takes JSON: {error}", kebab(&field.name)))
                })?),
                None => None,
            }
        }
    })
}

fn pair_of(pair: &str) -> Result<(String, Value)> {
    match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), json!(value))),
        _ => Err(Failure::usage(format!("{pair:?} is not KEY=VALUE"))),
    }
}

/// Reads a secret from a file, from a line of standard input, or, if required and interactive, from a prompt.
fn password(
    field: &Field,
    matches: &ArgMatches,
    given: bool,
    input: &mut dyn BufRead,
) -> Result<Option<String>> {
    let failed =
        |error: std::io::Error| Failure::usage(format!("the {} cannot be read: {error}", field.name));
    match text(matches, &format!("{BODY}{}", field.name)).as_deref() {
        Some("-") => read_line(input).map(Some).map_err(failed),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(failed)?;
            Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
        }
        None if given || !field.required => Ok(None),
        None if std::io::stdin().is_terminal() => ask_twice(&field.name).map(Some),
        None => Err(Failure::usage(format!("the {} is missing", field.name)).next(format!(
            "give --{0}-file FILE, or --{0}-file - and write it to standard input",
            kebab(&field.name)
        ))),
    }
}

pub(crate) fn read_line(input: &mut dyn BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// Prompts twice: a typo in a new password would lock its owner out.
fn ask_twice(name: &str) -> Result<String> {
    let ask = |prompt: String| {
        rpassword::prompt_password(prompt)
            .map_err(|error| Failure::local("the terminal cannot be read", error))
    };
    let first = ask(format!("{name}: "))?;
    if ask(format!("{name} once more: "))? != first {
        return Err(Failure::usage("the two differ"));
    }
    Ok(first)
}
