//! Options common to all commands, and their environment variables.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use jiff::Timestamp;

/// Adds the common options. They are added to the root and to each command instead of being propagated by clap, because
/// the server and agent commands (`muster server`) share the root and do not use them.
pub(crate) fn with_options(command: Command) -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading("Options of every command")
    };
    command
        .arg(option(
            "server",
            "URL",
            "The server's address [env: MUSTER_SERVER] [default: the profile's, else http://127.0.0.1:7480]",
        ))
        .arg(
            option(
                "token-file",
                "FILE",
                "A file that contains the token [env: MUSTER_TOKEN is the token itself, MUSTER_TOKEN_FILE names a file]",
            )
            .value_hint(ValueHint::FilePath),
        )
        .arg(option("profile", "NAME", "The profile to use [env: MUSTER_PROFILE] [default: the current one]"))
        .arg(
            option("ca-file", "PEM", "The certificate authorities to trust, instead of the machine's [env: MUSTER_CA_FILE]")
                .value_hint(ValueHint::FilePath),
        )
        .arg(
            option("output", "FORM", "Output format [env: MUSTER_OUTPUT] [default: table]")
                .short('o')
                .value_parser(["table", "json", "name"]),
        )
        .arg(
            option("verbose", "", "Show each request with its status and correlation id on stderr")
                .short('v')
                .action(ArgAction::SetTrue),
        )
}

/// Environment of the process. Variables are read here and not by clap, so that tests can set them.
pub(crate) struct Surroundings {
    pub(crate) profiles_path: PathBuf,
    /// Cache folder: pending uploads.
    pub(crate) cache_path: PathBuf,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) now: Timestamp,
    /// Whether standard output is a terminal.
    pub(crate) has_screen: bool,
    /// Whether standard error is a terminal.
    pub(crate) has_error_screen: bool,
    /// Whether a person can be prompted.
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

    /// Reports whether errors are printed as JSON.
    pub(crate) fn wants_json(&self, matches: &ArgMatches) -> bool {
        self.option(&levels(matches), "output").is_some_and(|form| form == "json")
    }

    /// Returns the value of an option at any level: the last typed one wins, then the variable.
    pub(crate) fn option(&self, levels: &[&ArgMatches], name: &str) -> Option<String> {
        let typed = levels.iter().rev().find_map(|level| level.try_get_one::<String>(name).ok().flatten());
        typed.or_else(|| self.variables.get(&variable(name))).cloned()
    }
}

/// Returns the variable of an option.
pub(crate) fn variable(name: &str) -> String {
    format!("MUSTER_{}", name.replace('-', "_").to_uppercase())
}

/// Returns the matches of each command on the way to the typed one, the root first.
pub(crate) fn levels(matches: &ArgMatches) -> Vec<&ArgMatches> {
    let mut levels = vec![matches];
    while let Some((_, deeper)) = levels[levels.len() - 1].subcommand() {
        levels.push(deeper);
    }
    levels
}
