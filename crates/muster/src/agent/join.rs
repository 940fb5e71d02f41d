//! `muster agent join`: makes this machine a node.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use muster_agent::{Folder, Invitation, Machine, Trust, authority_fingerprint, check_fresh, join};
use muster_agent_sim::fake_gpus;
use muster_ids::Env;

use crate::agent::{data_dir, fake_gpus_arg, reserve, start_logs, with_logs, with_reserve};

pub(crate) fn command() -> Command {
    let join = Command::new("join")
        .about("Make this machine a node, with a one-time token")
        .long_about(
            "Make this machine a node, with a one-time token.\n\n\
             `muster node enrol` issues the token and the authority's fingerprint, which identifies the \
             right server. A key is created here and stays here; the server signs a certificate for it, \
             which the agent renews. The node gets no work until an operator approves its hardware: `muster \
             node approve`.",
        )
        .arg(
            Arg::new("server")
                .long("server")
                .value_name("URL")
                .required(true)
                .help("The server's listener for nodes: https://HOST:PORT"),
        )
        .arg(
            Arg::new("token")
                .long("token")
                .value_name("TOKEN")
                .env("MUSTER_JOIN_TOKEN")
                .hide_env_values(true)
                .conflicts_with("token-file")
                .help("The one-time token. Other users can read command lines: --token-file is better"),
        )
        .arg(
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .value_hint(ValueHint::FilePath)
                .value_parser(value_parser!(PathBuf))
                .help("A file that contains the one-time token"),
        )
        .arg(
            Arg::new("ca-sha256")
                .long("ca-sha256")
                .value_name("HEX")
                .help("SHA-256 of the certificate of the platform's authority for nodes"),
        )
        .arg(
            Arg::new("trust-on-first-use")
                .long("trust-on-first-use")
                .action(ArgAction::SetTrue)
                .conflicts_with("ca-sha256")
                .help("Trust the first server that answers. An attacker in between can take the machine: for laboratories"),
        )
        .arg(
            Arg::new("name")
                .long("name")
                .value_name("NAME")
                .help("Requested name [default: its host name]; the token may set another"),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Start over in a folder that has joined: the old identity is removed, sandboxes are kept"),
        )
        .arg(Arg::new("run").long("run").action(ArgAction::SetTrue).help("Continue as `muster agent run`"));
    // Remaining options of `run`, for --run.
    super::driver::with_driver(with_logs(with_reserve(join.arg(data_dir()).arg(fake_gpus_arg())), "info"))
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    if matches.get_flag("run") {
        super::driver::check_driver(matches)?;
    }
    let trust = match matches.get_one::<String>("ca-sha256") {
        Some(digits) => Trust::fingerprint(digits)?,
        None if matches.get_flag("trust-on-first-use") => Trust::FirstUse,
        None => bail!(
            "add the fingerprint of `muster node enrol` with --ca-sha256: without it an attacker in between \
             can pose as the server (--trust-on-first-use takes that risk)"
        ),
    };
    start_logs(matches);
    let env = Env::system();
    let folder = Folder::new(matches.get_one::<PathBuf>("data-dir").context("--data-dir")?);
    folder.make()?;
    let force = matches.get_flag("force");
    check_fresh(&folder, force)?;
    let lock = folder.lock()?;
    let name = match matches.get_one::<String>("name") {
        Some(name) => name.clone(),
        None => std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
    };
    let gpus = matches.get_one::<u32>("fake-gpus").copied();
    let fake_gpus = fake_gpus(&folder, gpus, &name, &env)?;
    let machine = Machine::This { data_dir: folder.path().to_owned(), reserve: reserve(matches), fake_gpus };
    let server = matches.get_one::<String>("server").context("--server")?.parse()?;
    let invitation = Invitation { server, token: token(matches)?, trust, name };
    let inventory = machine.look().await;
    let digest = inventory.hardware_digest();
    let identity = join(&folder, &invitation, inventory, force, &env).await?;
    println!("joined as {} ({})", identity.node.name, identity.node.node_id);
    println!("authority  {}", authority_fingerprint(&identity)?);
    println!("next, as an operator: muster node approve {} --digest {digest}", identity.node.name);
    if matches.get_flag("run") {
        drop(lock);
        return super::run::serve(matches).await;
    }
    println!("then, here: muster agent run --data-dir {}", folder.path().display());
    Ok(ExitCode::SUCCESS)
}

fn token(matches: &ArgMatches) -> anyhow::Result<String> {
    if let Some(token) = matches.get_one::<String>("token") {
        return Ok(token.clone());
    }
    let Some(file) = matches.get_one::<PathBuf>("token-file") else {
        bail!("give the one-time token with --token-file, --token or MUSTER_JOIN_TOKEN");
    };
    std::fs::read_to_string(file).with_context(|| format!("reading the token from {}", file.display()))
}
