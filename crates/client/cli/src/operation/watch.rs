//! `muster operation watch`, and the `--wait` of every command that starts an operation: the same view.
//!
//! It long-polls the operation instead of following events: the operation has the authoritative state, read access to it
//! suffices, and a lost connection loses nothing.

use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command};
use jiff::SignedDuration;
use muster_sdk::describe::Description;
use muster_sdk::{Arguments, Connection};
use serde_json::Value;

use super::ending::{self, Beside};
use super::parts::Parts;
use super::progress::{changes, current};
use super::screen::Screen;
use super::{evidence, rests, text, title};
use crate::context::{Context, Output, say};
use crate::examples;
use crate::failure::{Exit, Failure, Result};
use crate::operate::{call, show};
use crate::printable::printable;
use crate::span::{span, took};

/// Long-poll duration in seconds: the maximum age of a step on the screen.
const LOOK: u64 = 1;
/// Minimum delay between polls, in case a server does not hold them.
const PAUSE: Duration = Duration::from_millis(100);
/// Time that only blocked children may be left before the wait ends: the parent may start the next child a moment later.
const BLOCKED: Duration = Duration::from_secs(5);
/// Maximum downtime of a server before the wait fails. It restarts within this.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn command() -> Command {
    let examples = examples::of("operation watch").unwrap_or_default();
    Command::new("watch")
        .after_help(examples)
        .about("Follow an operation to its end and show the evidence")
        .long_about(
            "Follow an operation to its end and show the evidence.\n\n\
             The exit code is its outcome: 0 succeeded, 10 failed, 11 cancelled, 12 superseded, 13 blocked, \
             14 done in part, 15 still in progress when --timeout was over. Watching changes nothing: the \
             operation continues by itself, also after Ctrl-C.\n\n\
             Needs the permission operation.get.",
        )
        .arg(Arg::new("operation").value_name("OPERATION").required(true).help("Its id"))
        .arg(timeout("Stop watching after: 90s, 10m, 2h [default: never]"))
}

/// Returns the `--timeout` argument.
pub(crate) fn timeout(help: &'static str) -> Arg {
    let parser = |text: &str| span(text).ok_or_else(|| "write it as 90s, 10m or 2h".to_owned());
    Arg::new("timeout").long("timeout").value_name("DURATION").value_parser(parser).help(help)
}

/// Returns the maximum wait.
pub(crate) fn limit(matches: &ArgMatches) -> Option<Duration> {
    let given = matches.try_get_one::<SignedDuration>("timeout").ok().flatten();
    given.and_then(|span| Duration::try_from(*span).ok())
}

/// Runs `muster operation watch`.
pub(crate) async fn watch(context: &Context, matches: &ArgMatches) -> Result<()> {
    let id = matches.get_one::<String>("operation").map(String::as_str).unwrap_or_default();
    let connection = context.connect()?;
    let (operation, failure) = to_the_end(context, &connection, id, &Value::Null, limit(matches)).await?;
    if context.output != Output::Table {
        show(context, &["operation", "get"], operation)?;
    }
    failure.map_or(Ok(()), Err)
}

/// Follows an operation, shows it, and returns its outcome. `seen` is the last known snapshot.
pub(crate) async fn to_the_end(
    context: &Context,
    connection: &Connection,
    id: &str,
    seen: &Value,
    limit: Option<Duration>,
) -> Result<(Value, Option<Failure>)> {
    let mut nowhere = std::io::sink();
    let mut out = std::io::stdout();
    let mut screen = match context.output {
        Output::Table => Screen::new(&mut out, context.has_screen()),
        Output::Json | Output::Name => Screen::new(&mut nowhere, false),
    };
    let (operation, late) = tokio::select! {
        followed = follow(context, connection, id, seen, limit, &mut screen) => followed?,
        () = interrupted() => return Err(left(id)),
    };
    if late.is_some() {
        return Ok((operation, late));
    }
    let failure = ending::failure(&operation, &Beside::of(connection, &operation).await, context.clock());
    if context.output == Output::Table && failure.is_none() {
        say(&format!("{}\n", ending::summary(&operation)))?;
    }
    Ok((operation, failure))
}

/// Polls until it ends or needs attention, or until the timeout, which is a failure of the wait and not of the operation.
pub(crate) async fn follow(
    context: &Context,
    connection: &Connection,
    id: &str,
    seen: &Value,
    limit: Option<Duration>,
    screen: &mut Screen<'_>,
) -> Result<(Value, Option<Failure>)> {
    let get = Description::embedded().endpoint("operation_get");
    let get = get.ok_or_else(|| Failure::usage("the API no longer has operations"))?;
    let (began, mut heard) = (Instant::now(), Instant::now());
    let (mut before, mut is_lost) = (seen.clone(), false);
    let mut parts = Parts::default();
    let mut advanced = Instant::now();
    let mut arguments =
        Arguments { path: [("operation".to_owned(), id.to_owned())].into(), ..Arguments::default() };
    loop {
        let left = limit.map_or(LOOK, |limit| limit.saturating_sub(began.elapsed()).as_secs());
        // The first poll returns immediately.
        let hold = if before.is_null() { 0 } else { left.min(LOOK) };
        arguments.query = vec![("wait_seconds".to_owned(), hold.to_string())];
        match call(connection, get, &arguments).await {
            Ok(after) => {
                (heard, is_lost) = (Instant::now(), false);
                if before.is_null() {
                    screen.line(&format!("{}: {}", text(&after, "id"), title(&after)))?;
                }
                for line in changes(&before, &after, screen.is_live(), context.clock()) {
                    screen.line(&line)?;
                }
                let fresh = evidence::fresh(&before, &after);
                let told = match context.is_verbose() {
                    true => evidence::lines(&fresh, context.clock()),
                    false => evidence::summaries(&text(&after, "subject_name"), &fresh, context.clock()),
                };
                for line in told {
                    screen.line(&format!("  {line}"))?;
                }
                let (live, detailed) = (screen.is_live(), context.is_verbose());
                for line in parts.look(connection, get, &after, live, detailed, context.clock()).await {
                    screen.line(&line)?;
                }
                before = after;
                if rests(&before) {
                    screen.clear()?;
                    return Ok((before, None));
                }
                if ending::blocking_children(&before).is_empty() {
                    advanced = Instant::now();
                } else if advanced.elapsed() >= BLOCKED {
                    screen.clear()?;
                    let blocked = ending::blocked_by_children(&before, context.clock());
                    return Ok((before, Some(blocked)));
                }
                let mut now = vec![current(&before, context.clock())];
                now.extend(parts.under_way(&before));
                screen.now(&now)?;
            }
            // The operation continues without us, and so does the wait: servers are restarted.
            Err(failure)
                if failure.exit == Exit::Unavailable && heard.elapsed() < PATIENCE && !before.is_null() =>
            {
                if !std::mem::replace(&mut is_lost, true) {
                    screen.line(&format!("  {}; retrying", printable(&failure.detail)))?;
                }
                tokio::time::sleep(PAUSE * 10).await;
            }
            // The server is up, and asks to retry later.
            Err(failure) if failure.exit == Exit::RateLimited && !before.is_null() => {
                heard = Instant::now();
                if !std::mem::replace(&mut is_lost, true) {
                    screen.line(&format!("  {}; retrying", printable(&failure.detail)))?;
                }
                let asked = Duration::from_secs(failure.retry_after().unwrap_or(1).max(1));
                let left = limit.map_or(asked, |limit| limit.saturating_sub(began.elapsed()));
                tokio::time::sleep(asked.min(left)).await;
            }
            Err(failure) => {
                screen.clear()?;
                return Err(if before.is_null() { failure } else { failure.next(goes_on(id)) });
            }
        }
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            screen.clear()?;
            let late = timed_out(id, &before, began.elapsed());
            return Ok((before, Some(late)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits for Ctrl-C, and starts a new line: the terminal shows `^C` at the end of the live one.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    eprintln!();
}

/// Returns the failure of an interrupted wait: the operation is not affected.
fn left(id: &str) -> Failure {
    Failure::new(Exit::Interrupted, "interrupted", "stopped waiting").next(goes_on(id))
}

fn timed_out(id: &str, operation: &Value, after: Duration) -> Failure {
    let after = took(i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
    let waits = text(operation, "waiting");
    let waits = if waits.is_empty() { waits } else { format!(": {waits}") };
    let detail = format!("{} is still {} after {after}{waits}", title(operation), text(operation, "state"));
    Failure::new(Exit::WaitTimedOut, "wait_timed_out", detail).next(goes_on(id))
}

fn goes_on(id: &str) -> String {
    format!("it continues: muster operation watch {id}")
}
