//! `muster`: the server, the all-in-one mode, and the command line, in one program.

mod agent;
mod backup;
mod down;
mod logs;
mod root_key;
mod server;
mod up;

use std::process::ExitCode;
use std::time::Duration;

use clap::ArgMatches;

/// Time a stopping agent waits for blocking work. Together with the ten seconds to finish its tasks, it is less than
/// `muster up` waits before it kills an agent.
const AGENT_SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// Returns the whole command line: the client's commands, and the server and agent commands.
fn command() -> clap::Command {
    muster_cli::command()
        .subcommand(server::command())
        .subcommand(up::command())
        .subcommand(down::command())
        .subcommand(agent::command())
}

fn main() -> ExitCode {
    // One cryptography library for everything; reqwest and sqlx use the default that is installed first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let is_agent = std::env::args_os().nth(1).is_some_and(|word| word == "agent");
    if is_agent {
        // Programs that an agent runs create directories in cells without setting modes: a stricter umask would hide a cell's
        // secrets from all users but root. Files that are private to the agent have explicit modes.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    }
    let matches = if is_agent { agent::alone() } else { command() }.get_matches();
    let mut builder = if agent::on_one_thread(&matches) {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::Error::from(error)),
    };
    let code = runtime.block_on(run(&matches));
    if is_agent {
        // Blocking work that takes longer is cut off as by a crash: a stopping agent must end, and the server retries.
        runtime.shutdown_timeout(AGENT_SETTLES_WITHIN);
    }
    code
}

async fn run(matches: &ArgMatches) -> ExitCode {
    let result = match matches.subcommand() {
        Some(("server", matches)) => server::run(matches).await,
        Some(("up", matches)) => up::run(matches).await,
        Some(("down", matches)) => down::run(matches).await,
        Some(("agent", matches)) => agent::run(matches).await,
        // Only here is the whole command line available.
        Some(("completion", matches)) => return muster_cli::print_completion(matches, &mut command()),
        _ => return muster_cli::run(matches).await,
    };
    match result {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    logs::last_words(error);
    ExitCode::FAILURE
}
