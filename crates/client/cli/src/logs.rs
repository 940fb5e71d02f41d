//! `muster logs`: output of a cell's services, live or archived.

use std::io::Write as _;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use jiff::{SignedDuration, Timestamp};
use muster_sdk::{Connection, Said};
use serde_json::{Map, Value, json};

use crate::age::instant;
use crate::context::{Context, say};
use crate::failure::{Exit, Failure, Result};
use crate::join::{Named, join, operation, project_argument};
use crate::operate::call;
use crate::span::span;

pub(crate) fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("logs")
        .about("Show the logs of a cell's services")
        .long_about(
            "Show the logs of a cell's services: each line with its time and stream (output or error). For a \
             cell that is gone, show its archived logs.\n\n\
             Needs the permission stream.logs, and cell.archived_logs for cells that are gone.",
        )
        .arg(Arg::new("cell").value_name("CELL").required(true).help("The cell, by id or name"))
        .arg(project_argument())
        .arg(text("service", "NAME", "Only this service"))
        .arg(Arg::new("follow").long("follow").short('f').action(ArgAction::SetTrue).help("Follow new lines"))
        .arg(text("tail", "N", "Only the last lines").value_parser(value_parser!(u32).range(0..=1_000_000)))
        .arg(text("since", "TIME", "Only lines since: 2026-11-15T18:00:00Z, or a duration: 10m, 2h"))
        .arg(text("search", "TEXT", "Only lines that contain this text"))
        .after_help(
            "Examples:\n  muster logs shell --tail 100\n  muster logs shell --service web --follow\n  muster logs shell --since 10m \
             --search error",
        )
}

/// Prints logs.
pub(crate) async fn logs(context: &Context, matches: &ArgMatches) -> Result<()> {
    let cell = matches.get_one::<String>("cell").map(String::as_str).unwrap_or_default();
    let named = Named::of(context, matches, cell)?;
    let connection = context.connect()?;
    let body = body(matches, context.now)?;
    let (_input, mut output) = match join(&connection, &named, operation("stream_logs")?, body.clone()).await
    {
        Ok(stream) => stream,
        // The cell is gone, or not created yet: only archived logs exist.
        Err(failure) if failure.exit == Exit::Conflict => {
            return kept(&connection, &named, &body, failure).await;
        }
        Err(failure) => return Err(failure),
    };
    loop {
        match output.next().await.map_err(|error| Failure::call(None, error))? {
            Said::Started => {}
            Said::Output(bytes) | Said::Error(bytes) => {
                let mut out = std::io::stdout().lock();
                out.write_all(&bytes)?;
                out.flush()?;
            }
            Said::Exited(_) => return Ok(()),
            Said::Failed(why) => return Err(Failure::new(Exit::Failed, "stream_failed", why)),
        }
    }
}

fn body(matches: &ArgMatches, now: Timestamp) -> Result<Value> {
    let mut body = Map::new();
    for name in ["service", "search"] {
        if let Some(text) = matches.get_one::<String>(name) {
            body.insert(name.to_owned(), json!(text));
        }
    }
    if matches.get_flag("follow") {
        body.insert("follow".to_owned(), json!(true));
    }
    if let Some(lines) = matches.get_one::<u32>("tail") {
        body.insert("tail".to_owned(), json!(lines));
    }
    if let Some(since) = matches.get_one::<String>("since") {
        body.insert("since".to_owned(), json!(before(since, now)?));
    }
    Ok(Value::Object(body))
}

/// Parses a time in the past: an instant, or a duration before now.
fn before(text: &str, now: Timestamp) -> Result<String> {
    if instant(text).is_some() {
        return Ok(text.to_owned());
    }
    let ago = span(text).and_then(|span| now.checked_sub(span).ok());
    ago.map(|then| then.to_string()).ok_or_else(|| {
        Failure::usage(format!("--since takes a time, not {text:?}"))
            .next("write it as 2026-11-15T18:00:00Z, or as a duration: 30m, 2h, 3d")
    })
}

/// Prints the archived logs of a removed cell, filtered as the node would.
async fn kept(connection: &Connection, named: &Named, asked: &Value, refused: Failure) -> Result<()> {
    let Ok(operation) = operation("cell_archived_logs") else { return Err(refused) };
    let answer = call(connection, operation, &named.arguments(None)).await.map_err(|_| refused)?;
    let logs = answer["logs"].as_array().cloned().unwrap_or_default();
    if logs.is_empty() {
        eprintln!("the cell does not exist and has no archived logs");
        return Ok(());
    }
    for log in &logs {
        let service = log["service"].as_str().unwrap_or_default();
        if asked["service"].as_str().is_some_and(|wanted| wanted != service) {
            continue;
        }
        let more = if log["truncated"] == true { "; earlier lines were not archived" } else { "" };
        eprintln!(
            "{service}, incarnation {}, archived at {}{more}:",
            log["incarnation"],
            log["kept_at"].as_str().unwrap_or("?")
        );
        let text = log["text"].as_str().unwrap_or_default();
        for line in chosen(text, asked) {
            say(&format!("{line}\n"))?;
        }
    }
    Ok(())
}

fn chosen<'t>(text: &'t str, asked: &Value) -> Vec<&'t str> {
    let since = asked["since"].as_str().and_then(|since| since.parse::<Timestamp>().ok());
    let late = |line: &&str| {
        let written = line.split(' ').next().and_then(|word| word.parse::<Timestamp>().ok());
        since.is_none_or(|since| {
            written.is_none_or(|written| written.duration_since(since) >= SignedDuration::ZERO)
        })
    };
    let found = |line: &&str| asked["search"].as_str().is_none_or(|text| line.contains(text));
    let lines: Vec<&str> = text.lines().filter(late).filter(found).collect();
    let most = asked["tail"].as_u64().and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    lines[lines.len().saturating_sub(most)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_past_are_chosen_as_those_of_the_living() {
        let text =
            "2026-01-01T00:00:00Z stdout a\n2026-01-02T00:00:00Z stdout b\n2026-01-03T00:00:00Z stderr ab\n";
        let count = |asked: Value| chosen(text, &asked).len();
        assert_eq!(count(json!({})), 3);
        assert_eq!(count(json!({"tail": 2})), 2);
        assert_eq!(count(json!({"tail": 0})), 0);
        assert_eq!(count(json!({"search": " a"})), 2);
        assert_eq!(count(json!({"since": "2026-01-02T00:00:00Z"})), 2);
        assert_eq!(chosen(text, &json!({"tail": 1})), ["2026-01-03T00:00:00Z stderr ab"]);
    }

    #[test]
    fn how_long_ago_is_a_time() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(before("30m", now).unwrap(), "2026-01-01T00:30:00Z");
        assert_eq!(before("2025-01-01T00:00:00Z", now).unwrap(), "2025-01-01T00:00:00Z");
        assert!(before("yesterday", now).is_err());
    }
}
