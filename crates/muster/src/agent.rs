//! `muster agent`: the node agent, and a fleet of simulated nodes.

pub(crate) mod clean;
pub(crate) mod driver;
pub(crate) mod enrolment;
pub(crate) mod inventory;
pub(crate) mod join;
pub(crate) mod run;
pub(crate) mod simulate;
pub(crate) mod tuning;
pub(crate) mod wipe_device;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Arg, ArgMatches, Command, value_parser};
use muster_agent::AgentError;
use muster_agent::inventory::{CheckReserve, DiskReserve, LEAST_CHECK_MEMORY_MB, Reserve};
use tracing_subscriber::filter::LevelFilter;

use crate::logs::{Form, last_words, to_stderr};

pub(crate) fn command() -> Command {
    Command::new("agent")
        .about("Run a node: join it, show its hardware, serve the platform; or simulate a fleet")
        .long_about(
            "Run a node: join it, show its hardware, serve the platform; or simulate a fleet.\n\n\
             An agent dials out and never listens. `muster node enrol` issues a join token; `muster agent \
             join` uses it; `muster agent run` serves from then on. docs/guides/agent.md is the guide.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(join::command())
        .subcommand(run::command())
        .subcommand(inventory::command())
        .subcommand(clean::command())
        .subcommand(wipe_device::command())
        .subcommand(simulate::command())
}

/// Returns the command line with only this subcommand. An agent must stay small for months, and parsing the API
/// description for unused commands would be most of its memory.
pub(crate) fn alone() -> Command {
    Command::new("muster").version(env!("CARGO_PKG_VERSION")).subcommand_required(true).subcommand(command())
}

/// Reports whether one thread suffices: it does for a single node, and keeps the process small.
pub(crate) fn on_one_thread(matches: &ArgMatches) -> bool {
    matches!(matches.subcommand(), Some(("agent", verb)) if verb.subcommand_name() != Some("simulate"))
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let result = match matches.subcommand() {
        Some(("join", matches)) => join::run(matches).await,
        Some(("run", matches)) => run::run(matches).await,
        Some(("inventory", matches)) => inventory::run(matches).await,
        Some(("clean", matches)) => clean::run(matches).await,
        Some(("wipe-device", matches)) => wipe_device::run(matches).await,
        Some(("simulate", matches)) => simulate::run(matches).await,
        _ => bail!("name a command of the agent"),
    };
    // An agent that must be enrolled again has its own exit code, so that a supervisor does not restart it forever.
    match result {
        Err(error) => match error.downcast_ref::<AgentError>() {
            Some(ended) => {
                last_words(&error);
                Ok(ExitCode::from(ended.exit_code()))
            }
            None => Err(error),
        },
        done => done,
    }
}

/// Returns the argument for an agent's persistent data.
pub(crate) fn data_dir() -> Arg {
    Arg::new("data-dir")
        .long("data-dir")
        .value_name("FOLDER")
        .env("MUSTER_AGENT_DATA_DIR")
        .default_value("/var/lib/muster-agent")
        .value_parser(value_parser!(PathBuf))
        .help("Folder of the node's key, certificate and sandboxes; for its owner alone")
}

pub(crate) fn fake_gpus_arg() -> Arg {
    Arg::new("fake-gpus")
        .long("fake-gpus")
        .value_name("N")
        .value_parser(value_parser!(u32).range(0..=64))
        .help("Report N simulated GPUs in place of real ones, for machines without any")
}

/// Adds the flags for resources that are not offered to allocations.
pub(crate) fn with_reserve(command: Command) -> Command {
    let flag = |name: &'static str, value: &'static str| Arg::new(name).long(name).value_name(value);
    let disk = flag("reserve-disk-mb", "MIB")
        .value_parser(value_parser!(u64))
        .help("Disk not offered to allocations, for images, logs and the agent [default: a tenth; 2 to 100 GiB, a quarter at most]");
    let cpus = flag("checks-cpus", "N").value_parser(value_parser!(u32).range(1..)).help(
        "CPUs for all checks on this node together, not offered to allocations [default: one of every 32]",
    );
    let memory = flag("checks-memory-mb", "MIB")
        .value_parser(value_parser!(u64).range(LEAST_CHECK_MEMORY_MB..))
        .help("Memory for all checks on this node together, not offered to allocations [default: an eighth; 1 to 16 GiB, a quarter at most]");
    command.args([disk, cpus, memory])
}

/// Returns the resources that are not offered to allocations.
pub(crate) fn reserve(matches: &ArgMatches) -> Reserve {
    let disk = matches.get_one::<u64>("reserve-disk-mb").copied();
    let checks = CheckReserve {
        cpus: matches.get_one::<u32>("checks-cpus").copied(),
        memory_mb: matches.get_one::<u64>("checks-memory-mb").copied(),
    };
    Reserve { disk: disk.map_or(DiskReserve::Default, DiskReserve::Mib), checks }
}

pub(crate) fn with_logs(command: Command, level: &'static str) -> Command {
    command
        .arg(
            Arg::new("log-level")
                .long("log-level")
                .value_name("LEVEL")
                .env("MUSTER_LOG_LEVEL")
                .default_value(level)
                .value_parser(["error", "warn", "info", "debug", "trace"])
                .help("Log level, on standard error"),
        )
        .arg(
            Arg::new("log-format")
                .long("log-format")
                .value_name("FORM")
                .env("MUSTER_LOG_FORMAT")
                .default_value("json")
                .value_parser(["json", "text"])
                .help("JSON for machines, text for people"),
        )
}

/// Starts logging with a level only: a pattern filter would add to an idle agent's memory.
pub(crate) fn start_logs(matches: &ArgMatches) {
    let word = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let level: LevelFilter = word("log-level").parse().unwrap_or(LevelFilter::INFO);
    let logs = tracing_subscriber::fmt().with_max_level(level);
    match word("log-format") {
        "text" => logs.with_writer(to_stderr(Form::Text)).compact().with_target(false).init(),
        _ => {
            let logs = logs.with_writer(to_stderr(Form::Json)).json().flatten_event(true);
            logs.with_current_span(false).with_span_list(false).init();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{alone, on_one_thread};

    #[test]
    fn the_command_line_holds_together() {
        alone().debug_assert();
    }

    #[test]
    fn one_node_runs_on_one_thread_and_a_fleet_on_many() {
        let typed = |words: &str| alone().try_get_matches_from(words.split(' ')).unwrap();
        assert!(on_one_thread(&typed("muster agent run")));
        assert!(!on_one_thread(&typed("muster agent simulate --data-dir /tmp/fleet")));
    }
}
