//! `muster agent clean`: removes everything of a node from its machine, without a server.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{ArgMatches, Command};
use muster_agent::inventory::Reserve;
use muster_agent::{Folder, Identity, Machine, real};
use muster_agent_sim::fake_gpus;
use muster_ids::Env;

use crate::agent::tuning::kill_points;
use crate::agent::{data_dir, start_logs, with_logs};

/// Prefix of the number of removed resources.
pub(crate) const REMOVED: &str = "removed things: ";

pub(crate) fn command() -> Command {
    let clean = Command::new("clean")
        .about("Remove every cell, disk and network of this node from the machine; no server is needed")
        .long_about(
            "Remove every cell, disk and network of this node from the machine; no server is needed. Disks \
             are wiped. No agent may run in the folder. The node's identity stays: the server is not \
             notified, and finds out when the agent runs again. The exit code is 1 if something could not be \
             removed; it is listed.",
        )
        .arg(data_dir());
    // The driver needs the same options as for `muster agent run`; the others are unused and hidden.
    let shown = ["data-dir", "run-dir", "address", "id-base", "log-level", "log-format"];
    super::driver::with_driver(with_logs(clean, "warn"))
        .mut_args(|arg| if shown.contains(&arg.get_id().as_str()) { arg } else { arg.hide(true) })
        // The loopback address always exists, and any address will do for a removal.
        .mut_arg("address", |arg| arg.default_value("127.0.0.1").help("An address of this machine"))
        .after_help("")
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    start_logs(matches);
    let env = Env::system();
    let folder = Folder::new(matches.get_one::<PathBuf>("data-dir").context("--data-dir")?);
    let Some(identity) = Identity::lookup(&folder)? else {
        println!("nothing to remove: {} has not joined", folder.path().display());
        return Ok(ExitCode::SUCCESS);
    };
    super::driver::check_driver(matches)?;
    let _lock = folder.lock()?;
    let fake_gpus = fake_gpus(&folder, None, &identity.node.name, &env)?;
    let machine =
        Machine::This { data_dir: folder.path().to_owned(), reserve: Reserve::default(), fake_gpus };
    let settings =
        super::driver::settings(matches, &identity, &folder, &machine, kill_points()?.hook()).await?;
    let clean = move || real::Driver::open(settings, &env)?.clean();
    let real::Cleaned { removed, left } = tokio::task::spawn_blocking(clean).await??;
    println!("{REMOVED}{removed}");
    if left.is_empty() {
        println!("nothing of {} is left on this machine", identity.node.name);
        return Ok(ExitCode::SUCCESS);
    }
    for thing in &left {
        eprintln!("muster: {}: {thing}", identity.node.name);
    }
    Ok(ExitCode::FAILURE)
}
