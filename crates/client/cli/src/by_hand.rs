//! Hand-written commands: they make several calls, or none.

use clap::{Arg, ArgAction, Command, ValueHint};

use crate::operation::watch;
use crate::options::with_options;
use crate::{app, artifact, cp, exec, key, logs};

/// Returns the commands without a noun.
pub(crate) fn alone() -> Vec<Command> {
    let plain = |name: &'static str, about: &'static str| Command::new(name).about(about);
    vec![
        with_options(
            plain("login", "Store a server and a token in a profile, and make it current")
                .arg(Arg::new("email").long("email").value_name("EMAIL").conflicts_with("token-file").help(
                    "Log in as this person; prompts for the password and issues a token for this machine",
                ))
                .arg(
                    Arg::new("password-stdin")
                        .long("password-stdin")
                        .action(ArgAction::SetTrue)
                        .requires("email")
                        .help("Read the password from standard input"),
                )
                .arg(default_place("tenant"))
                .arg(default_place("project")),
        ),
        with_options(
            plain("logout", "Revoke the profile's token and forget it").arg(
                Arg::new("local")
                    .long("local")
                    .action(ArgAction::SetTrue)
                    .help("Only remove it here, for servers that cannot be reached"),
            ),
        ),
        plain("profile", "list, show, use")
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommand(with_options(plain("list", "List the profiles")))
            .subcommand(with_options(plain("show", "Show the current profile, without its token")))
            .subcommand(with_options(
                plain("use", "Make a profile the current one, and set its tenant and project")
                    .arg(Arg::new("name").value_name("NAME").required(true).help("The profile"))
                    .arg(default_place("tenant"))
                    .arg(default_place("project")),
            )),
        with_options(plain("status", "Show versions, skew, health and replicas")),
        with_options(events()),
        with_options(exec::command()),
        with_options(logs::command()),
        with_options(cp::command()),
        plain("completion", "Write a completion script for a shell").arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(["bash", "zsh", "fish"])
                .help("Name of the shell"),
        ),
    ]
}

fn default_place(name: &'static str) -> Arg {
    let help = format!("The default {name}");
    Arg::new(name).long(name).value_name(name.to_uppercase()).help(help)
}

fn events() -> Command {
    Command::new("events")
        .about("Show events and follow new ones")
        .long_about(
            "Show events and follow new ones: of a project, a tenant or the platform. The default is the \
             profile's project, else its tenant, else the platform.",
        )
        .args(scope())
        .arg(Arg::new("instance").long("instance").value_name("INSTANCE").conflicts_with_all(["tenant", "platform"]).help(
            "Only the timeline of this app instance: its own events, and those of its members and of what belongs to them",
        ))
        .arg(
            Arg::new("follow").long("follow").short('f').action(ArgAction::SetTrue).help("Follow new events"),
        )
        .arg(number("after", "Only events after this number"))
        .arg(
            number("last", "Number of latest events to begin with [default: 50, and none with --follow]")
                .conflicts_with("after"),
        )
        .arg(Arg::new("type").long("type").value_name("TYPE").help(
            "Only events of this type; a trailing * matches the rest. docs/reference/events.md lists them",
        ))
}

fn number(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("N").value_parser(clap::value_parser!(i64).range(0..)).help(help)
}

fn scope() -> [Arg; 3] {
    let place = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(name.to_uppercase()).help(help)
    };
    [
        place("project", "A project's [env: MUSTER_PROJECT]"),
        place("tenant", "A tenant's [env: MUSTER_TENANT]"),
        Arg::new("platform").long("platform").action(ArgAction::SetTrue).help("The platform's"),
    ]
}

/// Returns the verbs of a noun that have no endpoint, or make more than one call.
pub(crate) fn verbs(noun: &str) -> Vec<Command> {
    match noun {
        "app" => app::verbs(),
        "artifact" => artifact::verbs(),
        "audit" => of_audit(),
        "key" => key::verbs(),
        "operation" => vec![with_options(watch::command())],
        _ => Vec::new(),
    }
}

fn of_audit() -> Vec<Command> {
    let [_, tenant, platform] = scope();
    let export = Command::new("export")
        .about("Download a whole audit chain, to be verified offline")
        .long_about(
            "Download a whole audit chain, to be verified offline: a tenant's, or the platform's. The \
             default is the tenant of the profile, else the platform.\n\n\
             Needs the permission audit.export.",
        )
        .arg(tenant)
        .arg(platform)
        .arg(
            Arg::new("file")
                .long("file")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .help("Output file, verified once written [default: standard output]"),
        );
    let verify = Command::new("verify")
        .about("Verify an exported audit chain, without a server")
        .long_about(
            "Verify an exported audit chain, without a server. Names the first row that was altered, removed \
             or reordered. Rows missing at the end, or a rewritten chain, are only detected with --heads \
             (signed heads stored elsewhere, see audit.heads_to) or with --head: store the output of `muster \
             audit head` elsewhere.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_hint(ValueHint::FilePath)
                .help("The export, or - for standard input"),
        )
        .arg(Arg::new("head").long("head").value_name("HASH").help("A hash of this chain, stored elsewhere"))
        .arg(
            Arg::new("heads")
                .long("heads")
                .value_name("FILE")
                .requires("public_key")
                .value_hint(ValueHint::FilePath)
                .help("Signed heads, stored elsewhere; those of other chains are skipped"),
        )
        .arg(
            Arg::new("public_key")
                .long("public-key")
                .value_name("FILE")
                .requires("heads")
                .action(clap::ArgAction::Append)
                .value_hint(ValueHint::FilePath)
                .help("The public key of the signed heads; may be repeated"),
        );
    vec![with_options(export), with_options(verify)]
}
