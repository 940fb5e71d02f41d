//! Manifests: `muster app lint` and `muster app schema` work without a server, a dry run of `muster app-version publish`
//! with one.

use std::io::Read as _;

use clap::{Arg, ArgMatches, Command, ValueHint};
use muster_manifest::{Context as Known, lint as examine};
use serde_json::{Value, json};

use crate::context::{Context, Output, say};
use crate::examples;
use crate::failure::{Exit, Failure, Result};
use crate::operate::show;
use crate::options::with_options;
use crate::printable::printable;

/// Returns the verbs that do not call the API.
pub(crate) fn verbs() -> Vec<Command> {
    let lint = Command::new("lint")
        .about("List all faults of a manifest, without a server")
        .long_about(
            "List all faults of a manifest, without a server: each with its place, its rule and the next \
             step. Errors prevent publishing and set the exit code; warnings do not. Only the server knows \
             whether its artifacts and permissions exist: `muster app-version publish APP --file FILE \
             --dry-run` checks them.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_hint(ValueHint::FilePath)
                .help("The manifest as JSON, or - for standard input"),
        )
        .after_help(examples::of("app lint").unwrap_or_default());
    vec![with_options(lint)]
}

/// Lints a manifest.
pub(crate) fn lint(context: &Context, matches: &ArgMatches) -> Result<()> {
    let file = matches.get_one::<String>("file").map(String::as_str).unwrap_or_default();
    let document = read(file)?;
    // Only the server knows the permissions: offline every name is accepted.
    let asked: Vec<&str> = document["permissions"]
        .as_array()
        .map(|words| words.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let faults = examine(&document, &Known { known_permissions: &asked, grantable: &asked });
    told(context, &["app", "lint"], file, json!({"faults": faults}))
}

/// Prints the manifest schema that this program lints with. The server returns its own, which may differ between
/// releases.
pub(crate) fn schema(context: &Context) -> Result<()> {
    show(context, &["app", "schema"], json!({"schema": muster_manifest::schema()}))
}

/// Prints the findings of a dry-run publication. Nothing was refused, since nothing was published; the exit code reflects
/// the errors.
pub(crate) fn rehearsed(context: &Context, words: &[&str], answer: Value) -> Result<()> {
    told(context, words, "the manifest", answer)
}

/// Prints the findings; errors fail the command, warnings do not.
fn told(context: &Context, words: &[&str], what: &str, found: Value) -> Result<()> {
    let faults = found["faults"].as_array().map_or(&[][..], Vec::as_slice);
    let errors = faults.iter().filter(|fault| is_error(fault)).count();
    match context.output {
        Output::Table | Output::Name => say(&lines(faults))?,
        Output::Json => show(context, words, found)?,
    }
    match errors {
        0 => Ok(()),
        errors => Err(Failure::new(Exit::Invalid, "lint_failed", format!("{what} has {errors} errors"))
            .next("fix them and lint again; `muster app schema` shows the schema of a manifest")),
    }
}

fn is_error(fault: &Value) -> bool {
    fault["error"] == Value::Bool(true)
}

fn read(file: &str) -> Result<Value> {
    let mut text = String::new();
    let got = match file {
        "-" => std::io::stdin().lock().read_to_string(&mut text).map(drop),
        path => std::fs::read_to_string(path).map(|read| text = read),
    };
    got.map_err(|error| Failure::usage(format!("{file} cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{file} is not JSON: {error}")))
}

/// Returns one line per finding, errors first.
fn lines(faults: &[Value]) -> String {
    if faults.is_empty() {
        return "valid\n".to_owned();
    }
    let (errors, warnings): (Vec<&Value>, Vec<&Value>) = faults.iter().partition(|fault| is_error(fault));
    let line = |fault: &Value| {
        let said = |field: &str| fault[field].as_str().unwrap_or_default();
        let kind = if is_error(fault) { "error" } else { "warning" };
        let place = if said("path").is_empty() { "/" } else { said("path") };
        format!("{}\n", printable(&format!("{kind}  {place}  {}: {}", said("rule"), said("message"))))
    };
    errors.into_iter().chain(warnings).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_line_with_place_rule_and_sentence() {
        let fault = |path: &str, error: bool| json!({"path": path, "rule": "some_rule", "message": "mend \u{1b}[31mit", "error": error});
        let shown = lines(&[fault("/a", false), fault("", true)]);
        let all: Vec<&str> = shown.lines().collect();
        assert_eq!(all.len(), 2);
        assert!(all[0].starts_with("error  /  some_rule: mend"), "{shown}");
        assert!(all[1].starts_with("warning  /a  some_rule: mend"), "{shown}");
        assert!(!shown.contains('\u{1b}'), "what a file says does not steer the terminal");
        assert_eq!(lines(&[]), "valid\n");
    }
}
