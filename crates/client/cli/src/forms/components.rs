//! `--set worker=4 --allocation worker=my-alloc`: desired members of a component, and the allocation for new ones.

use clap::{Arg, ArgAction, ArgMatches};
use muster_sdk::describe::Field;
use serde_json::{Map, Value, json};

use super::{document_of, halves};
use crate::failure::{Failure, Result};
use crate::flags::BODY;

const SET: &str = "set";
const INTO: &str = "component-allocation";

pub(super) fn arguments(field: &Field) -> Vec<Arg> {
    let many = |id: &'static str, flag: &'static str| Arg::new(id).long(flag).action(ArgAction::Append);
    vec![
        many(SET, "set")
            .value_name("COMPONENT=COUNT")
            .help("Number of members of a component. Can be given several times. For example worker=2."),
        many(INTO, "allocation").value_name("COMPONENT=ALLOCATION").help(
            "The allocation for a component's members, by id or name; the default is a new one for each. Can \
             be given several times.",
        ),
        Arg::new(format!("{BODY}{}", field.name))
            .long("components")
            .value_name("JSON")
            .help("The same as a list of objects with component_key, count, capacity and allocation; --set and --allocation override it"),
    ]
}

pub(super) fn fill(field: &Field, matches: &ArgMatches, document: &mut Map<String, Value>) -> Result<()> {
    if let Some(whole) = matches.get_one::<String>(&format!("{BODY}{}", field.name)) {
        document.insert(field.name.clone(), document_of("components", whole)?);
    }
    let said = |id: &str| matches.get_many::<String>(id).into_iter().flatten().cloned().collect::<Vec<_>>();
    let mut changes = Vec::new();
    for text in said(SET) {
        let (key, count) = halves("set", "COMPONENT=COUNT, such as worker=2", &text)?;
        let number = count.parse::<u32>().map_err(|_| {
            Failure::usage(format!("--set {text}: {count:?} is not a number of members, such as worker=2"))
        })?;
        changes.push((key.to_owned(), "count", json!(number)));
    }
    for text in said(INTO) {
        let (key, allocation) = halves("allocation", "COMPONENT=ALLOCATION, such as worker=train-1", &text)?;
        changes.push((key.to_owned(), "allocation", json!(allocation)));
    }
    if changes.is_empty() {
        return missing(field, document);
    }
    let asks = document.entry(field.name.clone()).or_insert_with(|| json!([]));
    let Value::Array(asks) = asks else {
        return Err(Failure::usage(format!("/{}: it must be a list of components", field.name)));
    };
    for (key, name, value) in changes {
        let place = asks.iter().position(|ask| ask["component_key"] == key.as_str());
        let place = place.unwrap_or_else(|| {
            asks.push(json!({"component_key": key}));
            asks.len() - 1
        });
        let Value::Object(ask) = &mut asks[place] else { continue };
        // Two different values on one command line are ambiguous.
        if ask.insert(name.to_owned(), value.clone()).is_some_and(|old| old != value)
            && !is_from_whole(matches, field)
        {
            return Err(Failure::usage(format!(
                "the {name} of {key} was given twice, with different values"
            )));
        }
    }
    Ok(())
}

/// Reports whether a whole body was given that flags may override.
fn is_from_whole(matches: &ArgMatches, field: &Field) -> bool {
    matches.contains_id(&format!("{BODY}{}", field.name)) || matches.contains_id("body")
}

fn missing(field: &Field, document: &Map<String, Value>) -> Result<()> {
    if !field.required || document.contains_key(&field.name) {
        return Ok(());
    }
    Err(Failure::usage("no component count given").next("add --set COMPONENT=COUNT, such as --set worker=4"))
}
