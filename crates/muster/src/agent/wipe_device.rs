//! `muster agent wipe-device`: overwrites the memory of a GPU, and verifies it. The agent runs it as a separate process,
//! because a process that has used a GPU holds memory of it, and of the machine, until it exits.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};

pub(crate) fn command() -> Command {
    Command::new("wipe-device")
        .about("Overwrite the memory of an unused GPU and read all of it back")
        .long_about(
            "Overwrite the memory of an unused GPU and read all of it back. The result is printed as JSON. \
             The exit code is 1 if the memory could not be verified as clean; the reason is on standard \
             error.",
        )
        .arg(
            Arg::new("uuid")
                .value_name("UUID")
                .required(true)
                .help("The GPU, as shown by `muster agent inventory`"),
        )
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let uuid: String = matches.get_one::<String>("uuid").context("the GPU's UUID")?.clone();
    let wiped = tokio::task::spawn_blocking(move || muster_disk::wipe(&uuid)).await??;
    println!("{}", serde_json::to_string(&wiped)?);
    Ok(ExitCode::SUCCESS)
}
