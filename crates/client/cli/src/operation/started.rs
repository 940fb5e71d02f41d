//! Output of commands that start an operation: the plan, the operation, or its progress to the end.

use clap::{Arg, ArgAction, ArgMatches};
use jiff::Timestamp;
use muster_sdk::Connection;
use serde_json::{Value, json};

use super::watch::{limit, timeout, to_the_end};
use super::{plan, steps, text, title};
use crate::age::{instant, relative};
use crate::context::{Context, Output, say};
use crate::failure::Result;
use crate::flags::BODY;
use crate::operate::show;

/// Returns the additional flags of such a command.
pub(crate) fn arguments() -> [Arg; 2] {
    [
        Arg::new("wait")
            .long("wait")
            .action(ArgAction::SetTrue)
            .help("Wait until the operation ends; the exit code is its outcome"),
        timeout("Stop waiting after: 90s, 10m, 2h; the operation continues [default: never]")
            .requires("wait"),
    ]
}

/// Reports whether a command lets an existing operation continue, and can therefore wait for it too.
pub(crate) fn can_wait(operation: &str) -> bool {
    matches!(operation, "operation_resolve" | "operation_cancel")
}

/// Prints an operation that continues, and waits for its end if requested.
pub(crate) async fn continued(
    context: &Context,
    connection: &Connection,
    words: &[&str],
    matches: &ArgMatches,
    operation: Value,
) -> Result<()> {
    let id = text(&operation, "id");
    if !matches.get_flag("wait") {
        return show(context, words, operation);
    }
    if context.output == Output::Table {
        say(&format!("{id}: {}\n", title(&operation)))?;
    }
    let (operation, failure) = to_the_end(context, connection, &id, &operation, limit(matches)).await?;
    if context.output != Output::Table {
        show(context, words, operation)?;
    }
    failure.map_or(Ok(()), Err)
}

/// Prints the started operation, and waits for its end if requested.
pub(crate) async fn started(
    context: &Context,
    connection: &Connection,
    words: &[&str],
    matches: &ArgMatches,
    mut answer: Value,
) -> Result<()> {
    let operation = answer["operation"].take();
    let Some(id) = operation["id"].as_str().map(str::to_owned) else {
        return match context.output {
            Output::Table if is_nothing(matches, &answer["plan"]) => {
                say("nothing was started: no change is needed\n")
            }
            Output::Table => say(&plan::shown(&answer["plan"], context.now)),
            Output::Json => show(context, words, json!({"plan": answer["plan"]})),
            Output::Name => Ok(()),
        };
    };
    if !matches.get_flag("wait") {
        return match context.output {
            Output::Table => say(&accepted(&operation, context.now)),
            Output::Json => show(context, words, json!({"operation": operation, "plan": answer["plan"]})),
            Output::Name => show(context, &["operation", "get"], operation),
        };
    }
    if context.output == Output::Table {
        say(&format!("{id}: {}\n", title(&operation)))?;
    }
    let (operation, failure) = to_the_end(context, connection, &id, &operation, limit(matches)).await?;
    match context.output {
        Output::Table => {}
        Output::Json => show(context, words, json!({"operation": operation, "plan": answer["plan"]}))?,
        Output::Name => show(context, &["operation", "get"], operation)?,
    }
    failure.map_or(Ok(()), Err)
}

/// Reports whether there was nothing to do: no operation, although this was not a dry run.
fn is_nothing(matches: &ArgMatches, plan: &Value) -> bool {
    let only_asks = matches.try_get_one::<bool>(&format!("{BODY}dry_run")).ok().flatten() == Some(&true);
    !only_asks && steps::of(plan).is_empty()
}

/// Returns two lines: the accepted operation, and the command to follow it.
fn accepted(operation: &Value, now: Timestamp) -> String {
    let count = steps::of(operation).len();
    let plural = if count == 1 { "step" } else { "steps" };
    let deadline = operation["deadline_at"].as_str().and_then(instant);
    let deadline = deadline.map(|then| format!(", deadline {}", relative(now, then))).unwrap_or_default();
    format!(
        "accepted: {}, {count} {plural}{deadline}\nnext: muster operation watch {}\n",
        title(operation),
        text(operation, "id")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::samples::{now, operation};

    #[test]
    fn accepted_operation_prints_two_lines_ending_with_the_next_command() {
        assert_eq!(
            accepted(&operation("accepted"), now()),
            "accepted: allocation.create of train-1, 3 steps, deadline in 14 min\nnext: muster operation watch op_1\n"
        );
    }
}
