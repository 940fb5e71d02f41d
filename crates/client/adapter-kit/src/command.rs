//! Command line of every adapter: run it, list its leases, replay a step, check its access.

mod check;
mod lease_list;
mod places;
mod replay;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::adapter::Adapter;
use crate::{Options, StartError, logs, run, stop};

/// Error of a command, for people.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{0}")]
    Platform(#[from] muster_sdk::Error),
    #[error("{0}")]
    Said(String),
    #[error("the output could not be written: {0}")]
    Output(#[from] std::io::Error),
}

/// The whole `main` of an adapter: parses the command line and the environment, and runs the command.
pub fn main<A: Adapter>(adapter: A) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no threads can be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(main_with(adapter, std::env::args_os(), &mut std::io::stdout()));
    // A pending long poll must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ExitCode::from(code)
}

/// Runs with an explicit command line and output; returns the exit status.
pub async fn main_with<A: Adapter>(
    adapter: A,
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    out: &mut (impl Write + Send),
) -> u8 {
    let given = match grammar(&adapter).try_get_matches_from(words) {
        Ok(given) => given,
        Err(error) => {
            // Help goes to standard output with status 0, a usage error to standard error with status 2.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let told = if code == 0 { write!(out, "{}", error.render()) } else { error.print() };
            return if told.is_ok() { code } else { 1 };
        }
    };
    logs::start(text(&given, "log-level"), given.get_one::<String>("log-format").map(String::as_str));
    let options = options(&adapter, &given);
    let name = adapter.name().to_owned();
    let result = match given.subcommand() {
        Some(("check", _)) => check::check(&options, out).await,
        Some(("lease-list", _)) => lease_list::lease_list(options, out).await,
        Some(("replay", rest)) => {
            replay::replay(adapter, options, text(rest, "step"), rest.get_flag("for-real"), out).await
        }
        _ => until_told(adapter, options).await,
    };
    match result {
        Ok(()) => 0,
        Err(trouble) => {
            eprintln!("{name}: {trouble}");
            1
        }
    }
}

/// Runs until a signal arrives: the first lets running steps finish, the second does not wait for them.
async fn until_told<A: Adapter>(adapter: A, options: Options) -> Result<(), Trouble> {
    let (stopper, stop) = stop();
    let signals = async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) =
            match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
                (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
                (Err(error), _) | (_, Err(error)) => {
                    tracing::warn!(%error, "signals cannot be received");
                    return std::future::pending().await;
                }
            };
        for _ in 0..2 {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            stopper.stop();
        }
    };
    tokio::select! {
        ended = run(Arc::new(adapter), options, stop) => Ok(ended?),
        () = signals => Err(Trouble::Said("stopped twice: steps were abandoned".to_owned())),
    }
}

fn grammar<A: Adapter>(adapter: &A) -> Command {
    let step = Arg::new("step").value_name("STEP").required(true).help("The step's id: astp_…");
    let for_real = Arg::new("for-real")
        .long("for-real")
        .action(ArgAction::SetTrue)
        .help("Lease the step and execute it, instead of printing its requests");
    Command::new(adapter.name().to_owned())
        .version(adapter.version().to_owned())
        .about("An adapter: it leases steps of its app's instances and executes them through the platform's public API.")
        .after_help(
            "MUSTER_TOKEN_FILE selects the account: an app's operator in one project, or the publisher's, \
             which then works in every project entitled to its apps.",
        )
        .args(settings())
        .subcommand(Command::new("run").about("Lease and execute steps until stopped (the default)"))
        .subcommand(Command::new("check").about("Show this adapter's identity and whether it has the required permissions"))
        .subcommand(Command::new("lease-list").about("List waiting and leased steps, with holder and expiry"))
        .subcommand(
            Command::new("replay")
                .about("Rehearse a step on the current instance and print its requests; nothing is changed")
                .arg(step)
                .arg(for_real),
        )
}

fn settings() -> Vec<Arg> {
    let setting = |name: &'static str, variable: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .env(variable)
            .value_name(value)
            .help(help)
            .hide_env_values(true)
            .global(true)
    };
    let number = |arg: Arg, default: &'static str| {
        arg.default_value(default).value_parser(value_parser!(u64).range(1..))
    };
    vec![
        setting("server", "MUSTER_SERVER", "URL", "The platform's address")
            .default_value("http://127.0.0.1:7480"),
        setting(
            "token-file",
            "MUSTER_TOKEN_FILE",
            "FILE",
            "A file with a service account's token; several, separated by colons",
        )
        .value_delimiter(':')
        .action(ArgAction::Append)
        .value_parser(value_parser!(PathBuf)),
        setting(
            "ca-file",
            "MUSTER_CA_FILE",
            "PEM",
            "The certificate authorities to trust, instead of the machine's",
        )
        .value_parser(value_parser!(PathBuf)),
        setting("app", "MUSTER_ADAPTER_APPS", "SLUG", "The publisher's apps of this adapter [default: all]")
            .value_delimiter(',')
            .action(ArgAction::Append),
        setting(
            "name",
            "MUSTER_ADAPTER_NAME",
            "NAME",
            "Name of this process for the platform [default: NAME-HOST-PID]",
        ),
        number(setting("most", "MUSTER_ADAPTER_MOST", "N", "Concurrent steps per project"), "64"),
        number(
            setting(
                "lease-seconds",
                "MUSTER_ADAPTER_LEASE_SECONDS",
                "N",
                "Lease duration without a heartbeat, 5 to 600",
            ),
            "30",
        ),
        number(
            setting(
                "wait-seconds",
                "MUSTER_ADAPTER_WAIT_SECONDS",
                "N",
                "Longest wait of one request for work, at most 60",
            ),
            "25",
        ),
        number(
            setting(
                "grace-seconds",
                "MUSTER_ADAPTER_GRACE_SECONDS",
                "N",
                "Time for steps to end after a stop signal",
            ),
            "10",
        ),
        number(
            setting(
                "look-around-seconds",
                "MUSTER_ADAPTER_LOOK_AROUND_SECONDS",
                "N",
                "Interval for listing the publisher's consumers",
            ),
            "30",
        ),
        setting("log-level", "MUSTER_LOG", "LEVEL", "Log level: error, warn, info, debug")
            .default_value("info"),
        setting("log-format", "MUSTER_LOG_FORMAT", "FORMAT", "json or text [default: text on a terminal]")
            .value_parser(["json", "text"]),
    ]
}

fn text<'g>(given: &'g ArgMatches, name: &str) -> &'g str {
    given.get_one::<String>(name).map_or("", String::as_str)
}

fn options<A: Adapter>(adapter: &A, given: &ArgMatches) -> Options {
    let seconds = |name: &str| Duration::from_secs(given.get_one::<u64>(name).copied().unwrap_or(1));
    let files = given.get_many::<PathBuf>("token-file").into_iter().flatten().cloned().collect();
    let name = given.get_one::<String>("name").cloned().unwrap_or_else(|| process_name(adapter.name()));
    // The only source of randomness: the operating system's, through the SDK.
    let seed = u64::from_str_radix(&muster_sdk::fresh_key()[..16], 16).unwrap_or(0);
    Options {
        ca_file: given.get_one::<PathBuf>("ca-file").cloned(),
        apps: given.get_many::<String>("app").into_iter().flatten().cloned().collect(),
        most: usize::try_from(given.get_one::<u64>("most").copied().unwrap_or(64)).unwrap_or(64),
        lease: seconds("lease-seconds"),
        wait: seconds("wait-seconds"),
        grace: seconds("grace-seconds"),
        look_around: seconds("look-around-seconds"),
        ..Options::new(text(given, "server"), files, name, seed)
    }
}

/// Returns the process name: the host name distinguishes machines, the process id the processes of one machine.
fn process_name(adapter: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "host" } else { host.trim() };
    format!("{adapter}-{host}-{}", std::process::id()).chars().take(100).collect()
}
