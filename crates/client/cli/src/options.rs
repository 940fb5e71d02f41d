//! The options that every command has, and the variables that stand for them.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use jiff::Timestamp;

/// Adds the options that every command has. They are added to the root and to each command instead of being handed down
/// by clap, because commands that are no client's (`muster server`) share the root and have no use for them.
pub(crate) fn with_options(command: Command) -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("Options of every command")
    };
    command
        .arg(option(
            "server",
            "URL",
            "Where the server is [env: MUSTER_SERVER] [default: the profile's, else http://127.0.0.1:7480]",
        ))
        .arg(
            option(
                "token-file",
                "FILE",
                "A file that holds the token [env: MUSTER_TOKEN holds the token itself, MUSTER_TOKEN_FILE names a file]",
            )
            .value_hint(ValueHint::FilePath),
        )
        .arg(option("profile", "NAME", "The profile to use [env: MUSTER_PROFILE] [default: the current one]"))
        .arg(
            option("ca-file", "PEM", "The certificate authorities to trust, instead of the machine's [env: MUSTER_CA_FILE]")
                .value_hint(ValueHint::FilePath),
        )
        .arg(
            option("output", "FORM", "How answers are shown [env: MUSTER_OUTPUT] [default: table]")
                .short('o')
                .value_parser(["table", "json", "name"]),
        )
        .arg(
            option("verbose", "", "Show each request with its status and correlation id on stderr")
                .short('v')
                .action(ArgAction::SetTrue),
        )
}

/// What comes from around the process. Variables are read here and not by clap, so that tests say what they are.
pub(crate) struct Surroundings {
    pub(crate) profiles_path: PathBuf,
    /// Where things lie that can be had again: which uploads are under way.
    pub(crate) cache_path: PathBuf,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) now: Timestamp,
    /// Whether lines on standard output can be written over.
    pub(crate) has_screen: bool,
    /// Whether those on standard error can.
    pub(crate) has_error_screen: bool,
    /// Whether somebody sits in front who can be asked.
    pub(crate) can_ask: bool,
}

impl Surroundings {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the machine's clock enters the command line"
    )]
    pub(crate) fn real() -> Self {
        let obeys = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        let ours = std::env::vars().filter(|(name, value)| name.starts_with("MUSTER_") && !value.is_empty());
        Self {
            profiles_path: crate::profile::default_path(),
            cache_path: crate::profile::default_cache_path(),
            variables: ours.collect(),
            now: Timestamp::now(),
            has_screen: std::io::stdout().is_terminal() && obeys,
            has_error_screen: std::io::stderr().is_terminal() && obeys,
            can_ask: std::io::stdin().is_terminal() && std::io::stderr().is_terminal(),
        }
    }

    /// Whether errors are wanted as JSON.
    pub(crate) fn wants_json(&self, matches: &ArgMatches) -> bool {
        self.option(&levels(matches), "output").is_some_and(|form| form == "json")
    }

    /// The value of an option that may stand at any level: the last that was typed wins, then the variable.
    pub(crate) fn option(&self, levels: &[&ArgMatches], name: &str) -> Option<String> {
        let typed = levels.iter().rev().find_map(|level| level.try_get_one::<String>(name).ok().flatten());
        typed.or_else(|| self.variables.get(&variable(name))).cloned()
    }
}

/// The variable that stands for an option.
pub(crate) fn variable(name: &str) -> String {
    format!("MUSTER_{}", name.replace('-', "_").to_uppercase())
}

/// The matches of each command on the way to the one that was meant, the root first.
pub(crate) fn levels(matches: &ArgMatches) -> Vec<&ArgMatches> {
    let mut levels = vec![matches];
    while let Some((_, deeper)) = levels[levels.len() - 1].subcommand() {
        levels.push(deeper);
    }
    levels
}
