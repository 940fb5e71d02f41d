//! The `muster` command line, built on the SDK and, for signing, on the crate that defines signatures.
//!
//! Nouns and verbs are not listed here: they are read from the API description at start, so that a new endpoint of the
//! contract becomes a command with the next build, with help, flags and completion. Hand-written commands cover what a
//! description cannot express: login, profiles, following events and operations, verifying an audit chain, registry
//! content, the status overview. Deriving commands at compile time was rejected: it duplicates the list, and adds
//! generated code.
//!
//! The server's and the agent's commands are added in `crates/muster`, which owns `main`.

mod age;
mod allocation;
mod amount;
mod app;
mod artifact;
mod audit;
mod by_hand;
mod capacity;
mod chain;
mod collect;
mod columns;
mod command;
mod context;
mod contract;
mod cp;
mod events;
mod examples;
mod exec;
mod failure;
mod flags;
mod forms;
mod join;
mod key;
mod login;
mod logs;
mod member;
mod naming;
mod node;
mod operate;
mod operation;
mod options;
mod place;
mod printable;
mod profile;
mod profiles;
mod reference;
mod secret;
mod signed_heads;
mod span;
mod status;
mod suggest;
mod table;
mod terminal;
mod words;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{ArgMatches, ValueEnum as _};
use clap_complete::Shell;
use muster_sdk::describe::Description;

use context::Context;
use failure::{Exit, Failure, Result};
use options::Surroundings;

/// Returns the whole client command line, to which the binary adds the server and agent commands.
pub fn command() -> clap::Command {
    command::command(Description::embedded())
}

/// Runs the typed command, and returns the exit code of `docs/reference/cli.md`.
pub async fn run(matches: &ArgMatches) -> ExitCode {
    let surroundings = Surroundings::real();
    let as_json = surroundings.wants_json(matches);
    match dispatch(matches, surroundings).await {
        Ok(status) => status,
        Err(failure) => ExitCode::from(failure.report(as_json)),
    }
}

/// Prints the completion script for `muster completion SHELL`. `command` is the whole command line including the binary's
/// own commands, which the completion would otherwise hide.
pub fn print_completion(matches: &ArgMatches, command: &mut clap::Command) -> ExitCode {
    let shell = matches.get_one::<String>("shell").and_then(|name| Shell::from_str(name, true).ok());
    let Some(shell) = shell else { return ExitCode::from(Exit::Usage as u8) };
    // A reader may close the pipe early.
    let _ = std::io::stdout().write_all(&completion(shell, command));
    ExitCode::SUCCESS
}

fn completion(shell: Shell, command: &mut clap::Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "muster", &mut script);
    script
}

async fn dispatch(matches: &ArgMatches, surroundings: Surroundings) -> Result<ExitCode> {
    let words = words_of(matches);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let levels = options::levels(matches);
    let leaf = levels[levels.len() - 1];
    if let ["completion"] = words[..] {
        return Ok(print_completion(leaf, &mut command()));
    }
    let context = Context::new(matches, surroundings, words == ["login"])?;
    let done = match words[..] {
        // Its exit status is that of the command in the cell.
        ["exec"] => return exec::exec(&context, leaf).await,
        ["login"] => login::login(&context, leaf, &mut std::io::stdin().lock()).await,
        ["logout"] => login::logout(&context, leaf).await,
        ["profile", verb] => profiles::profile(&context, verb, leaf),
        ["status"] => status::status(&context).await,
        ["events"] => events::events(&context, leaf).await,
        ["logs"] => logs::logs(&context, leaf).await,
        ["cp"] => cp::cp(&context, leaf).await,
        ["audit", "export"] => audit::export(&context, leaf).await,
        ["audit", "verify"] => audit::verify_file(&context, leaf),
        ["app", "lint"] => app::lint(&context, leaf),
        ["app", "schema"] => app::schema(&context),
        ["artifact", "push"] => artifact::push::push(&context, leaf).await,
        ["artifact", "pull"] => artifact::pull::pull(&context, leaf).await,
        ["artifact", "sign"] => artifact::sign::sign(&context, leaf).await,
        ["artifact", "smoke"] => artifact::smoke::smoke(&context, leaf).await,
        ["key", "generate"] => key::generate(&context, leaf),
        ["operation", "watch"] => operation::watch::watch(&context, leaf).await,
        _ => match words::meant(Description::embedded(), &words) {
            Some(operation) => operate::operate(&context, operation, leaf).await,
            None => Err(Failure::usage(format!("there is no command `muster {}`", words.join(" ")))),
        },
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Returns the names of the typed commands, without their arguments.
fn words_of(matches: &ArgMatches) -> Vec<String> {
    let mut words = Vec::new();
    let mut level = matches;
    while let Some((name, deeper)) = level.subcommand() {
        words.push(name.to_owned());
        level = deeper;
    }
    words
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod wire_tests;
