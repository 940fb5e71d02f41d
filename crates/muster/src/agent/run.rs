//! `muster agent run`: runs the agent on this node.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{ArgMatches, Command};
use muster_agent::{Agent, Folder, Identity, Machine, Phase};
use muster_agent_sim::fake_gpus;
use muster_ids::Env;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::driver::{check_driver, with_driver};
use crate::agent::{data_dir, fake_gpus_arg, reserve, start_logs, with_logs, with_reserve};

pub(crate) fn command() -> Command {
    let run = Command::new("run")
        .about("Serve the platform on this node, until SIGTERM")
        .long_about(
            "Serve the platform on this node, until SIGTERM: then no task is started, running ones are \
             finished and reported for up to ten seconds, and the exit code is 0. It is 3 if the node was \
             retired or its certificate expired: only `muster agent join --force` helps then.",
        )
        .arg(data_dir())
        .arg(fake_gpus_arg());
    with_driver(with_logs(with_reserve(run), "info"))
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    check_driver(matches)?;
    start_logs(matches);
    serve(matches).await
}

/// Runs the agent, for `run` and `join --run`.
pub(crate) async fn serve(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    // First of all, so that an early signal is not lost.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let env = Env::system();
    let folder = Folder::new(matches.get_one::<PathBuf>("data-dir").context("--data-dir")?);
    let Some(identity) = Identity::lookup(&folder)? else {
        bail!(
            "{} has not joined: `muster node enrol` prints the command for this machine, which begins with `muster agent join`",
            folder.path().display()
        );
    };
    folder.lock()?.keep_until_exit();
    let name = identity.node.name.clone();
    let fake_gpus = fake_gpus(&folder, matches.get_one::<u32>("fake-gpus").copied(), &name, &env)?;
    let machine = Machine::This { data_dir: folder.path().to_owned(), reserve: reserve(matches), fake_gpus };
    let driver = super::driver::open(matches, &identity, &folder, &machine, &env).await?;
    let (stop, stopped) = watch::channel(false);
    let (_switch, cut) = watch::channel(false);
    let phase = watch::Sender::new(Phase::Away);
    let agent = Agent { folder, identity, machine, driver, env, cut, phase };
    let signals = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        stop.send_replace(true);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = muster_agent::run(agent, stopped) => ended?,
        () = signals => {}
    }
    Ok(ExitCode::SUCCESS)
}
