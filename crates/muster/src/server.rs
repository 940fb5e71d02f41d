//! `muster server`: runs a server, and manages its settings, keys and backups.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use muster_http::{Settings, TABLE};
use muster_ids::Env;
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::{backup, logs, root_key};

/// Adds a flag for every setting, so that the table is also the help text.
pub(crate) fn with_settings(mut command: Command) -> Command {
    command = command.arg(
        Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("MUSTER_CONFIG")
            .value_parser(value_parser!(PathBuf))
            .help("A TOML file with settings"),
    );
    for setting in TABLE {
        let default = if setting.default.is_empty() {
            String::new()
        } else {
            format!(" [default: {}]", setting.default)
        };
        command = command.arg(Arg::new(setting.key).long(setting.flag()).value_name("VALUE").help(format!(
            "{}{default} [env: {}]",
            setting.meaning,
            setting.environment()
        )));
    }
    command
}

/// Returns the settings of an invocation: file, environment, flags.
pub(crate) fn settings(matches: &ArgMatches) -> anyhow::Result<Settings> {
    let flags = TABLE.iter().filter_map(|setting| {
        let value = matches.try_get_one::<String>(setting.key).ok()??;
        Some((setting.key.to_owned(), value.clone()))
    });
    let file = matches.get_one::<PathBuf>("config");
    Ok(Settings::load(file.map(PathBuf::as_path), std::env::vars(), flags)?)
}

pub(crate) fn command() -> Command {
    with_settings(Command::new("server"))
        .about("Run a server, or manage its settings, keys and backups")
        .arg(
            Arg::new("stop-with-stdin")
                .long("stop-with-stdin")
                .hide(true)
                .action(ArgAction::SetTrue)
                .help("Stop when standard input closes, so that nothing outlives `muster up`"),
        )
        .subcommand(
            with_settings(Command::new("settings")).about("Show every setting, its value and its source"),
        )
        .subcommand(backup::backup_command())
        .subcommand(backup::restore_command())
        .subcommand(root_key::command())
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    match matches.subcommand() {
        Some(("settings", matches)) => {
            for (key, value, from) in settings(matches)?.effective() {
                println!("{key:32} {value:40} {from}");
            }
            Ok(ExitCode::SUCCESS)
        }
        Some(("backup", matches)) => backup::backup(matches).await,
        Some(("restore", matches)) => backup::restore(matches).await,
        Some(("root-key", matches)) => root_key::run(matches).await,
        _ => serve(matches).await,
    }
}

async fn serve(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let settings = settings(matches)?;
    logs::start(&settings)?;
    // Before the start, so that an early signal is not lost.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let running = muster_http::start(&settings, Env::system()).await?;
    if let Some(file) = &running.first_token_file {
        tracing::info!(file = %file.display(), "first start: the operator's token was written, once");
    }
    tracing::info!(
        address = %running.address,
        nodes_address = running.nodes_address.map(tracing::field::display),
        database = running.platform.store.kind(),
        version = env!("CARGO_PKG_VERSION"),
        "listening"
    );
    let stdin_closes = async {
        if !matches.get_flag("stop-with-stdin") {
            return std::future::pending().await;
        }
        let mut buffer = [0; 64];
        while matches!(tokio::io::stdin().read(&mut buffer).await, Ok(read) if read > 0) {}
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = stdin_closes => {}
    }
    tracing::info!("stopping: requests in progress are finished first");
    running.stop().await;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}
