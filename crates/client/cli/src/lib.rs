//! The `muster` command line, on the SDK and, for signing, on the crate that says what a signature is.
//!
//! Nouns and verbs are not written down here: they are read from the API's description at start, so that an operation
//! that joins the contract is a command by the next build, with help, flags and completion. What is written by hand is
//! what a description cannot say: logging in, profiles, following events and operations, verifying an audit chain, content
//! to and from the registry, the status at one look. Deriving commands at compile time was rejected: it is the same list a second time, and generated
//! code besides.
//!
//! The server's and the agent's own commands join in `crates/muster`, which owns `main`.

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

/// The whole command line, to which the binary adds what is no client's.
pub fn command() -> clap::Command {
    command::command(Description::embedded())
}

/// Carries out what was typed, and gives the exit code of `docs/reference/cli.md`.
pub async fn run(matches: &ArgMatches) -> ExitCode {
    let surroundings = Surroundings::real();
    let as_json = surroundings.wants_json(matches);
    match dispatch(matches, surroundings).await {
        Ok(status) => status,
        Err(failure) => ExitCode::from(failure.report(as_json)),
    }
}

/// Writes the completion script that `muster completion SHELL` asked for. `command` is the whole one, with the binary's
/// own commands: a completion that does not know them would hide them.
pub fn print_completion(matches: &ArgMatches, command: &mut clap::Command) -> ExitCode {
    let shell = matches.get_one::<String>("shell").and_then(|name| Shell::from_str(name, true).ok());
    let Some(shell) = shell else { return ExitCode::from(Exit::Usage as u8) };
    // Who closes the pipe early has seen enough.
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
        // Its exit status is that of the command it ran.
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

/// The names of the commands that were typed, without their arguments.
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
