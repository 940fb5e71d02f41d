//! `muster exec`: runs a command in a cell as if it were local: input, output, exit status, and a terminal if there is
//! one.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use muster_sdk::{Said, StreamInput, StreamOutput};
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::join::{Named, join, operation, project_argument};
use crate::terminal::{Raw, size};

pub(crate) fn command() -> Command {
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").value_parser(value_parser!(u32)).help(help)
    };
    Command::new("exec")
        .about("Run a command in a cell, with local input, output and exit status")
        .long_about(
            "Run a command in a cell, with local input, output and exit status. No shell interprets it: for \
             pipes and variables run one, as in `sh -c '…'`. When this command ends, so does the one in the \
             cell.\n\n\
             The exit status is the command's; 255 means that the command could not be run, or that the \
             connection was lost.\n\n\
             Needs the permission stream.create.",
        )
        .arg(Arg::new("cell").value_name("CELL").required(true).help("The cell, by id or name"))
        .arg(Arg::new("command").value_name("COMMAND").required(true).num_args(1..).last(true).help("The program and its arguments"))
        .arg(project_argument())
        .arg(
            Arg::new("terminal")
                .long("terminal")
                .short('t')
                .value_name("WHEN")
                .value_parser(["auto", "always", "never"])
                .default_value("auto")
                .default_missing_value("always")
                .num_args(0..=1)
                .require_equals(true)
                .help("Whether to allocate a terminal; auto: if there is one here"),
        )
        .arg(number("uid", "User in the cell [default: yourself where the cell has the project's users, else 0]"))
        .arg(number("gid", "Group in the cell [default: the user's number]"))
        .arg(Arg::new("directory").long("directory").short('w').value_name("PATH").help("Working directory in the cell"))
        .arg(
            Arg::new("env")
                .long("env")
                .short('e')
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("Environment variable; can be repeated"),
        )
        .after_help(
            "Examples:\n  muster exec shell -- nvidia-smi\n  muster exec shell -- sh               # a terminal, if there is one \
             here\n  muster exec shell --uid 1000 -w /data -e LANG=C -- ls -l\n  tar c . | muster exec shell -- tar x -C /data   \
             # no terminal: input is the pipe",
        )
}

/// Runs the command. A local failure returns 255, to distinguish it from the command's own status.
pub(crate) async fn exec(context: &Context, matches: &ArgMatches) -> Result<ExitCode> {
    let status = run(context, matches).await.map_err(|failure| match failure.exit {
        Exit::Usage => failure,
        _ => failure.with_exit(Exit::Stream),
    })?;
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(255)))
}

async fn run(context: &Context, matches: &ArgMatches) -> Result<i32> {
    let cell = matches.get_one::<String>("cell").map(String::as_str).unwrap_or_default();
    let named = Named::of(context, matches, cell)?;
    let terminal = match matches.get_one::<String>("terminal").map(String::as_str) {
        Some("always") => true,
        Some("never") => false,
        _ => std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
    };
    let body = json!({"command": body(matches, terminal)?});
    let stream = join(&context.connect()?, &named, operation("stream_create")?, body).await?;
    // Until the command has started, the terminal stays in normal mode, and Ctrl-C interrupts this program.
    let raw = || terminal.then(Raw::set).transpose().map(Option::flatten);
    carry(stream, terminal, raw).await
}

fn body(matches: &ArgMatches, terminal: bool) -> Result<Value> {
    let words: Vec<&String> = matches.get_many::<String>("command").into_iter().flatten().collect();
    let mut body = json!({"command": words, "terminal": terminal});
    if let Some((columns, rows)) = size().filter(|_| terminal) {
        body["columns"] = json!(columns);
        body["rows"] = json!(rows);
    }
    for name in ["uid", "gid"] {
        if let Some(number) = matches.get_one::<u32>(name) {
            body[name] = json!(number);
        }
    }
    if let Some(directory) = matches.get_one::<String>("directory") {
        body["working_directory"] = json!(directory);
    }
    let mut environment = Map::new();
    for pair in matches.get_many::<String>("env").into_iter().flatten() {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--env takes NAME=VALUE, not {pair:?}")))?;
        environment.insert(name.to_owned(), json!(value));
    }
    if !environment.is_empty() {
        body["environment"] = Value::Object(environment);
    }
    Ok(body)
}

/// Transfers input and output until the end; returns the exit status.
async fn carry(
    (mut input, mut output): (StreamInput, StreamOutput),
    terminal: bool,
    raw: impl FnOnce() -> Result<Option<Raw>>,
) -> Result<i32> {
    let (begin, begun) = oneshot::channel();
    let mut ended = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let inward = async {
        if begun.await.is_ok() && feed(&mut input, terminal).await.is_ok() {
            // Only output remains.
        }
        std::future::pending::<()>().await;
    };
    let status = tokio::select! {
        status = show(&mut output, begin, raw) => status,
        () = inward => Ok(255),
        _ = ended.0.recv() => Err(Failure::silent(Exit::Stream)),
        _ = ended.1.recv() => Err(Failure::silent(Exit::Stream)),
    };
    input.close().await;
    status
}

async fn show(
    output: &mut StreamOutput,
    begin: oneshot::Sender<()>,
    raw: impl FnOnce() -> Result<Option<Raw>>,
) -> Result<i32> {
    let mut begin = Some((begin, raw));
    let mut _raw = None;
    loop {
        match output.next().await.map_err(|error| Failure::call(None, error))? {
            Said::Started => {
                if let Some((begin, raw)) = begin.take() {
                    _raw = raw()?;
                    let _ = begin.send(());
                }
            }
            Said::Output(bytes) => {
                let mut out = std::io::stdout().lock();
                out.write_all(&bytes)?;
                out.flush()?;
            }
            Said::Error(bytes) => std::io::stderr().lock().write_all(&bytes)?,
            Said::Exited(status) => return Ok(status),
            Said::Failed(why) => return Err(Failure::new(Exit::Stream, "stream_failed", why)),
        }
    }
}

/// Sends standard input and terminal size changes.
async fn feed(input: &mut StreamInput, terminal: bool) -> std::result::Result<(), muster_sdk::Error> {
    let mut pieces = standard_input();
    let mut resized = terminal.then(|| signal(SignalKind::window_change()).ok()).flatten();
    loop {
        let resizing = async {
            match &mut resized {
                Some(resized) => resized.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            piece = pieces.recv() => match piece {
                Some(piece) => input.send(&piece).await?,
                None => {
                    input.end().await?;
                    break;
                }
            },
            _ = resizing => {
                if let Some((columns, rows)) = size() {
                    input.resize(columns, rows).await?;
                }
            }
        }
    }
    Ok(())
}

/// Reads standard input in a detached thread: a blocking read must not keep the program from ending.
fn standard_input() -> mpsc::Receiver<Vec<u8>> {
    let (pieces, received) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut buffer = vec![0; 32 << 10];
        while let Ok(count @ 1..) = input.read(&mut buffer) {
            if pieces.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    received
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_typed_is_asked_for() {
        let typed =
            ["exec", "c", "--uid", "5", "-w", "/d", "-e", "A=b=c", "-e", "E=", "--", "ls", "-l", "--", "x"];
        let matches = command().try_get_matches_from(typed).unwrap();
        let expected = json!({"command": ["ls", "-l", "--", "x"], "terminal": false, "uid": 5, "working_directory": "/d",
                              "environment": {"A": "b=c", "E": ""}});
        assert_eq!(body(&matches, false).unwrap(), expected);
        let wrong = command().try_get_matches_from(["exec", "c", "-e", "A", "--", "ls"]).unwrap();
        assert!(body(&wrong, false).is_err());
        assert!(
            command().try_get_matches_from(["exec", "c", "ls"]).is_err(),
            "what runs there stands behind --"
        );
    }
}
