//! `muster artifact smoke`: the smoke test. It creates a cell of the exact digest, waits until it is verified as running,
//! and destroys it; the node agent's findings are the evidence for staging the artifact.

use std::io::Write as _;

use clap::{Arg, ArgAction, ArgMatches, Command};
use muster_sdk::{Arguments, Connection, Said};
use serde_json::{Value, json};

use super::{about, artifact_argument, project};
use crate::context::{Context, Output, say};
use crate::examples;
use crate::failure::{Exit, Failure, Result};
use crate::join::{Named, join, operation, project_argument};
use crate::operate::{call, show};
use crate::operation::watch::{limit, timeout, to_the_end};

pub(crate) fn command() -> Command {
    Command::new("smoke")
        .about("Run an image once in its own cell, as evidence for staging it")
        .long_about(
            "Run an image once in its own cell, as evidence for staging it: the cell is created from the \
             exact digest, verified as running by its node's agent, and destroyed. Pass its id to `muster \
             artifact promote --smoke-cell`. A command, if given, runs in the cell and must end with 0.\n\n\
             Needs the permissions cell.create and cell.destroy, with a command stream.create, with \
             --promote artifact.promote.",
        )
        .arg(artifact_argument())
        .arg(
            Arg::new("allocation")
                .long("allocation")
                .value_name("ALLOCATION")
                .required(true)
                .help("Allocation to run in, by id or name"),
        )
        .arg(
            Arg::new("command")
                .value_name("COMMAND")
                .num_args(1..)
                .last(true)
                .help("Command to run in it, without a shell"),
        )
        .arg(
            Arg::new("promote")
                .long("promote")
                .action(ArgAction::SetTrue)
                .help("Then promote it to staged with this evidence"),
        )
        .arg(
            Arg::new("reason")
                .long("reason")
                .value_name("REASON")
                .default_value("its smoke test passed")
                .help("Reason for the promotion, for the record"),
        )
        .arg(timeout(
            "Stop waiting after this long: 90s, 10m [default: never; the platform has a deadline of its own]",
        ))
        .arg(project_argument())
        .after_help(examples::of("artifact smoke").unwrap_or_default())
}

/// Runs the command.
pub(crate) async fn smoke(context: &Context, matches: &ArgMatches) -> Result<()> {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let project = project(context, matches)?;
    let connection = context.connect()?;
    let artifact = about(&connection, "artifact_get", (&project, word("artifact")), None).await?;
    let text = |name: &str| artifact[name].as_str().unwrap_or_default().to_owned();
    if artifact["kind"] != "oci" {
        return Err(Failure::usage("only images run; this artifact consists of files")
            .next("mount or fetch the files in a cell of an image, and test that"));
    }
    let cell = make(context, &connection, matches, &project, &text("digest"), word("allocation")).await?;
    let named = Named { project: project.clone(), cell: cell.clone() };
    let tested = run(&connection, matches, &named).await;
    // Destroy the cell in any case; a failure to do so must not hide the test's result.
    let destroyed = destroy(context, &connection, &named, matches).await;
    tested.and(destroyed)?;
    let artifact = if matches.get_flag("promote") {
        let body = json!({"to": "staged", "reason": word("reason"), "smoke_cell": cell});
        about(&connection, "artifact_promote", (&project, &text("id")), Some(body)).await?
    } else {
        artifact
    };
    match context.output {
        Output::Name => say(&format!("{cell}\n")),
        Output::Json => show(context, &["artifact", "smoke"], json!({"cell_id": cell, "artifact": artifact})),
        Output::Table if matches.get_flag("promote") => show(context, &["artifact", "promote"], artifact),
        Output::Table => say(&format!(
            "{cell} was verified running\nnext: muster artifact promote {} --to staged --smoke-cell {cell} --reason REASON\n",
            word("artifact")
        )),
    }
}

/// Creates the cell and waits until it is verified as running; returns its id.
async fn make(
    context: &Context,
    connection: &Connection,
    matches: &ArgMatches,
    project: &str,
    digest: &str,
    allocation: &str,
) -> Result<String> {
    let hash: String = digest.trim_start_matches("sha256:").chars().take(12).collect();
    let body = json!({"name": format!("smoke-{hash}"), "allocation": allocation, "spec": {"root": {"image": digest}}});
    let path = [("project".to_owned(), project.to_owned())].into();
    let arguments = Arguments { path, body: Some(body), ..Arguments::default() };
    let started = call(connection, operation("cell_create")?, &arguments).await?;
    let operation = &started["operation"];
    let cell = operation["subject_id"].as_str().unwrap_or_default().to_owned();
    finish(context, connection, operation, matches).await.map_err(|failure| {
        let next = failure.next.clone().unwrap_or_else(|| format!("`muster cell get {cell}` shows details"));
        failure.next(next)
    })?;
    Ok(cell)
}

async fn destroy(
    context: &Context,
    connection: &Connection,
    named: &Named,
    matches: &ArgMatches,
) -> Result<()> {
    let body = json!({"reason": "smoke test finished"});
    let started = call(connection, operation("cell_destroy")?, &named.arguments(Some(body))).await?;
    finish(context, connection, &started["operation"], matches).await
}

async fn finish(
    context: &Context,
    connection: &Connection,
    started: &Value,
    matches: &ArgMatches,
) -> Result<()> {
    let id = started["id"].as_str().unwrap_or_default();
    let (_, failure) = to_the_end(context, connection, id, started, limit(matches)).await?;
    failure.map_or(Ok(()), Err)
}

/// Runs the command in the cell, if any. Its output goes to standard error: the result is the cell.
async fn run(connection: &Connection, matches: &ArgMatches, named: &Named) -> Result<()> {
    let words: Vec<&String> = matches.get_many::<String>("command").into_iter().flatten().collect();
    if words.is_empty() {
        return Ok(());
    }
    let body = json!({"command": {"command": words, "terminal": false}});
    let (mut input, mut output) = join(connection, named, operation("stream_create")?, body).await?;
    let failed = |why: String| {
        Failure::new(Exit::Failed, "smoke_failed", format!("the smoke test failed: {why}"))
            .next("fix the image and push it again; `muster cell list` shows whether the cell is gone")
    };
    loop {
        match output.next().await.map_err(|error| Failure::call(None, error))? {
            // It gets no input; if it ended before, that is not a failure.
            Said::Started => drop(input.end().await),
            Said::Output(bytes) | Said::Error(bytes) => std::io::stderr().lock().write_all(&bytes)?,
            Said::Exited(0) => return Ok(()),
            Said::Exited(status) => return Err(failed(format!("the command ended with status {status}"))),
            Said::Failed(why) => return Err(failed(why)),
        }
    }
}
