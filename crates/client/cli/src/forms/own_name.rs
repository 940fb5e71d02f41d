//! Name of an instance; default: the app's. `muster instance create notebook` creates `notebook`.

use clap::{Arg, ArgMatches};
use muster_sdk::describe::Field;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};
use crate::flags::{BODY, sentence};
use crate::naming::position;

pub(super) fn argument(field: &Field) -> Arg {
    Arg::new(format!("{BODY}{}", field.name))
        .long("name")
        .value_name("NAME")
        .help(format!("{} [default: the app's slug]", sentence(&field.description)))
}

pub(super) fn fill(field: &Field, matches: &ArgMatches, document: &mut Map<String, Value>) -> Result<()> {
    let typed = |id: &str| matches.try_get_one::<String>(id).ok().flatten().cloned();
    if let Some(name) = typed(&format!("{BODY}{}", field.name)) {
        document.insert(field.name.clone(), json!(name));
    }
    if document.contains_key(&field.name) {
        return Ok(());
    }
    let app = typed(&position("app")).or_else(|| typed(&format!("{BODY}app")));
    let app = app.or_else(|| document.get("app")?.as_str().map(str::to_owned)).unwrap_or_default();
    if app.starts_with("app_") {
        return Err(Failure::usage("no name given: the app was named by its id")
            .next("add --name NAME, or name the app by its slug"));
    }
    document.insert(field.name.clone(), json!(app));
    Ok(())
}
