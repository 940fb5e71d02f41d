//! Runs a command that maps to one endpoint, and prints the response.

use std::io::{BufRead, BufReader};

use clap::ArgMatches;
use jiff::Timestamp;
use muster_sdk::describe::Endpoint;
use muster_sdk::{Arguments, Connection};
use serde_json::{Value, json};

use crate::collect::collect;
use crate::columns::columns;
use crate::context::{Context, Output, say};
use crate::contract::Contract;
use crate::failure::{Exit, Failure, Result};
use crate::flags::is_list;
use crate::operation::started;
use crate::printable::{printable, printable_json};
use crate::reference::references;
use crate::suggest::suggest;
use crate::words::Words;
use crate::{allocation, app, artifact, capacity, member, node, operation, table, workload};

/// Runs the command.
pub(crate) async fn operate(context: &Context, operation: &Endpoint, matches: &ArgMatches) -> Result<()> {
    // Not locked: the lock would be held as long as the command waits.
    operate_with(context, operation, matches, &mut BufReader::new(std::io::stdin())).await
}

/// Runs the command, with `input` as standard input.
pub(crate) async fn operate_with(
    context: &Context,
    operation: &Endpoint,
    matches: &ArgMatches,
    input: &mut dyn BufRead,
) -> Result<()> {
    let mut arguments = collect(operation, matches, |name| context.default_for(name), input, context.now)?;
    let connection = context.connect()?;
    if operation.id == "node_approve"
        && !node::approve::fill(context, &connection, &mut arguments, matches, input).await?
    {
        return Ok(());
    }
    member::resolve(&connection, operation, &mut arguments).await?;
    let follow = is_list(operation) && matches.get_flag("all");
    let answer = match call(&connection, operation, &arguments).await {
        Ok(answer) => answer,
        Err(failure) => return Err(suggest(&connection, operation, &arguments, failure).await),
    };
    let mut answer = if follow { rest(&connection, operation, arguments, answer).await? } else { answer };
    if context.output == Output::Table {
        workload::look_beside(&connection, &operation.id, &mut answer).await;
    }
    let words = Words::of(operation);
    if operation.id == "can_i" {
        verdict(context, &words.path(), answer)
    } else if Contract::embedded().starts(&operation.id) {
        started::started(context, &connection, &words.path(), matches, answer).await
    } else if started::can_wait(&operation.id) {
        started::continued(context, &connection, &words.path(), matches, answer).await
    } else if operation.id == "app_version_publish" && answer["app_version"].is_null() {
        app::rehearsed(context, &words.path(), answer)
    } else {
        show(context, &words.path(), answer)
    }
}

/// Returns the specific view of a resource; all others are printed field by field.
fn own_form(words: &[&str], thing: &Value, now: Timestamp) -> Option<String> {
    match words {
        ["operation", ..] if thing["steps"].is_array() => Some(operation::view::shown(thing, now)),
        ["node", ..] if thing["inventory_digest"].is_string() => Some(node::view::shown(thing, now)),
        ["allocation", "attest"] => {
            let lines = operation::evidence::lines(std::slice::from_ref(thing), now);
            Some(lines.into_iter().map(|line| format!("{line}\n")).collect())
        }
        ["allocation", "timeline"] => Some(allocation::timeline(thing, now)),
        ["artifact", "references"] => Some(artifact::view::references(thing, now)),
        ["artifact", ..] if thing["digest"].is_string() => Some(artifact::view::shown(thing, now)),
        ["capacity", "get"] => Some(capacity::shown(thing, now)),
        _ => workload::own_form(words, thing, now),
    }
}

/// Makes one call.
pub(crate) async fn call(
    connection: &Connection,
    operation: &Endpoint,
    arguments: &Arguments,
) -> Result<Value> {
    let answered = connection.call(operation, arguments).await;
    Ok(answered.map_err(|error| Failure::call(Some(operation), error))?.json())
}

/// Fetches the remaining pages. Lists of resources are paged by `page_token`, lists of numbered rows by `after`.
async fn rest(
    connection: &Connection,
    operation: &Endpoint,
    mut arguments: Arguments,
    first: Value,
) -> Result<Value> {
    let mut items = Vec::new();
    let mut page = first;
    loop {
        let next = following(&page);
        if let Value::Array(found) = page["items"].take() {
            items.extend(found);
        }
        let Some((name, value)) = next else { return Ok(json!({"items": items})) };
        arguments.query.retain(|(other, _)| *other != name);
        arguments.query.push((name, value));
        page = call(connection, operation, &arguments).await?;
    }
}

/// Returns the parameter for the next page, if there is one.
fn following(page: &Value) -> Option<(String, String)> {
    if let Some(token) = page["next_page_token"].as_str() {
        return Some(("page_token".to_owned(), token.to_owned()));
    }
    let (after, sealed) = page["next_after"].as_i64().zip(page["sealed_up_to"].as_i64())?;
    let more = after < sealed && page["items"].as_array().is_some_and(|items| !items.is_empty());
    more.then(|| ("after".to_owned(), after.to_string()))
}

/// Prints a response in the selected format.
pub(crate) fn show(context: &Context, words: &[&str], answer: Value) -> Result<()> {
    // The time of the response: a push may have taken an hour.
    let now = context.clock();
    if context.output == Output::Table
        && let Some(shown) = own_form(words, &answer, now)
    {
        return say(&shown);
    }
    match context.output {
        Output::Json => say(&printable_json(&format!("{answer:#}\n"))),
        Output::Name => {
            // Beside the name, which scripts read: the secret is only shown once.
            if let Some(secret) = shown_once(words, &answer) {
                eprintln!("Save this secret now; it will not be shown again:\n{}", printable(secret));
            }
            say(&names(words, &answer)?)
        }
        Output::Table => match answer {
            Value::Object(mut page) if is_page(&page) => {
                let mut items = page["items"].take();
                let each = items.as_array_mut().into_iter().flatten();
                match words {
                    ["operation", ..] => each.for_each(operation::forget_what_was_overcome),
                    ["artifact", ..] => each.for_each(artifact::view::row),
                    ["repository", ..] => each.for_each(artifact::view::size_in_words),
                    _ => each.for_each(|item| workload::row(words, item)),
                }
                let items = items.as_array().map_or(&[][..], Vec::as_slice);
                if items.is_empty() {
                    eprintln!("none");
                } else {
                    say(&table::table(columns(words), items, now))?;
                }
                remark_on_more(&Value::Object(page), items.len());
                Ok(())
            }
            Value::Object(mut thing) => {
                // A runtime secret's field is called `value`.
                let issued = matches!(words, ["runtime-secret", ..]).then_some("value");
                let secret = thing.remove(issued.unwrap_or("secret"));
                let secret = secret.and_then(|secret| secret.as_str().map(str::to_owned));
                let replayed = thing.get("secret_shown_once") == Some(&Value::Bool(true));
                say(&table::lines(&thing, now))?;
                if thing.get("token").is_some_and(Value::is_string) {
                    eprintln!("Save this token now; it will not be shown again and can be used once");
                }
                if let Some(secret) = secret {
                    eprintln!("Save this secret now; it will not be shown again:");
                    say(&format!("{}\n", printable(&secret)))?;
                } else if replayed {
                    eprintln!(
                        "the secret was in the first response to this key and is not stored; rotate it if it is lost"
                    );
                }
                Ok(())
            }
            other => say(&format!("{}\n", table::plain(&other))),
        },
    }
}

/// Reports whether a response is a list. An operation has items too, but is a single resource.
fn is_page(answer: &serde_json::Map<String, Value>) -> bool {
    answer.get("items").is_some_and(Value::is_array) && !answer.contains_key("id")
}

/// Returns the names in a response, one per line. A response without a name is refused, so that a script never reads an
/// empty line as a name.
pub(crate) fn names(words: &[&str], answer: &Value) -> Result<String> {
    let named = references(words, answer).ok_or_else(|| {
        Failure::usage(format!("`muster {}` has no name to print", words.join(" "))).next("use -o json")
    })?;
    Ok(named.iter().map(|name| format!("{}\n", printable(name))).collect())
}

/// Returns the secret that a response contains only once.
fn shown_once<'a>(words: &[&str], answer: &'a Value) -> Option<&'a str> {
    let member = match words {
        // A runtime secret's field is called `value`.
        ["runtime-secret", ..] => "value",
        ["node", "enrol"] => "token",
        _ => "secret",
    };
    answer[member].as_str()
}

/// Remarks that a list is incomplete.
fn remark_on_more(page: &Value, shown: usize) {
    if page["next_page_token"].is_string() {
        eprintln!("more results: --all shows everything, --page-size N more at once");
    } else if let Some((after, sealed)) = page["next_after"].as_i64().zip(page["sealed_up_to"].as_i64())
        && after < sealed
        && shown > 0
    {
        eprintln!("more results, up to {sealed}: --all shows everything, --after {after} continues");
    }
}

/// Prints yes or no, with the reason; the exit code matches.
fn verdict(context: &Context, words: &[&str], answer: Value) -> Result<()> {
    let allowed = answer["allowed"] == Value::Bool(true);
    if context.output == Output::Table {
        let reason = printable(answer["reason"].as_str().unwrap_or_default());
        say(&format!("{}: {reason}\n", if allowed { "yes" } else { "no" }))?;
    } else {
        show(context, words, answer)?;
    }
    if allowed { Ok(()) } else { Err(Failure::silent(Exit::Denied)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_followed_by_token_and_by_number_and_no_further() {
        let next = |page: Value| following(&page).map(|(name, value)| format!("{name}={value}"));
        assert_eq!(next(json!({"items": [1], "next_page_token": "t"})).as_deref(), Some("page_token=t"));
        assert_eq!(next(json!({"items": [1]})), None);
        assert_eq!(
            next(json!({"items": [1], "next_after": 3, "sealed_up_to": 9})).as_deref(),
            Some("after=3")
        );
        assert_eq!(next(json!({"items": [1], "next_after": 9, "sealed_up_to": 9})), None);
        assert_eq!(
            next(json!({"items": [], "next_after": 3, "sealed_up_to": 9})),
            None,
            "a filter may leave nothing"
        );
    }

    #[test]
    fn a_secret_that_is_shown_once_is_found_beside_the_name() {
        let issued = json!({"id": "tok_1", "secret": "mst_pat_x"});
        assert_eq!(super::shown_once(&["token", "issue"], &issued), Some("mst_pat_x"));
        assert_eq!(super::shown_once(&["token", "get"], &json!({"id": "tok_1"})), None);
        assert_eq!(super::shown_once(&["runtime-secret", "issue"], &json!({"value": "v"})), Some("v"));
        assert_eq!(super::shown_once(&["node", "enrol"], &json!({"token": "t"})), Some("t"));
    }

    #[test]
    fn names_are_what_other_commands_accept() {
        let page = json!({"items": [{"tenant": "acme", "name": "train", "id": "prj_1"}]});
        let names = |words: &[&str], answer: &Value| super::names(words, answer).unwrap();
        assert_eq!(names(&["project", "list"], &page), "acme.train\n");
        assert_eq!(names(&["tenant", "create"], &json!({"slug": "acme", "id": "ten_1"})), "acme\n");
        assert_eq!(names(&["service-account", "get"], &json!({"name": "ci", "id": "sa_1"})), "sa_1\n");
        assert_eq!(names(&["tenant", "delete"], &json!({"id": "ten_1", "removed": {}})), "ten_1\n");
        assert_eq!(names(&["tenant", "list"], &json!({"items": []})), "");
        let bulk =
            json!({"id": "op_1", "kind": "instance.create", "items": [{"id": "mem_1", "name": "unit-0"}]});
        assert_eq!(names(&["operation", "get"], &bulk), "op_1\n", "its items are not what was started");
        let published =
            json!({"app_version": {"id": "apv_1", "app": "notebook", "name": "1.2"}, "faults": []});
        assert_eq!(names(&["app-version", "publish"], &published), "apv_1\n");
        let granted = json!({"entitlement": {"id": "ent_1"}, "permissions": ["cell.list"]});
        assert_eq!(names(&["entitlement", "grant"], &granted), "ent_1\n");
        assert!(super::names(&["app", "schema"], &json!({"schema": {}})).is_err());
    }
}
