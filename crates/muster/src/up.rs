//! `muster up`: everything on one machine, in one process group, stopped together.

pub(crate) mod address_pool;
pub(crate) mod agent;
pub(crate) mod idle;
pub(crate) mod nodes;
pub(crate) mod program;
pub(crate) mod record;
pub(crate) mod server;
pub(crate) mod testbed;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{ArgMatches, Command};
use futures::future::try_join_all;
use muster_http::Settings;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::agent::enrolment::Operator;
use crate::server::{settings, with_settings};
use crate::up::nodes::{Fleet, with_nodes};
use crate::up::server::Server;

pub(crate) fn command() -> Command {
    with_nodes(with_settings(Command::new("up")))
        .about("Start everything this machine needs, and stop it all on Ctrl-C")
        .long_about(
            "Start everything this machine needs, and stop it all on Ctrl-C.\n\n\
             With --nodes N it also runs N nodes, each in a network namespace of its own, like N machines in \
             one network. Their cells keep running when it ends; the same data folder finds them again, and \
             `muster down` removes them.",
        )
}

/// Signals that end the process.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    async fn come(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut settings = settings(matches)?;
    // On a terminal, logs are text and warnings only, unless configured otherwise.
    for (key, value) in [("log.format", "text"), ("log.level", "warn")] {
        if settings.is_default(key) {
            settings.set(key, value.to_owned(), "a flag")?;
        }
    }
    let mut signals =
        Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? };
    let fleet = Fleet::prepare(matches, &mut settings)?;
    let config = matches.get_one::<PathBuf>("config");
    let mut server = Server::start(&settings, config.map(PathBuf::as_path)).await?;
    match live(&mut server, &settings, fleet.as_ref(), &mut signals).await {
        Ok(()) => end(server, &settings, fleet.as_ref()).await,
        Err(error) => {
            // The original error matters more than that of the stop.
            let _ = server.stop().await;
            Err(error)
        }
    }
}

/// Runs until a signal; the server is still running then.
async fn live(
    server: &mut Server,
    settings: &Settings,
    fleet: Option<&Fleet>,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    tokio::select! {
        ready = server.ready() => ready?,
        () = signals.come() => return Ok(()),
    }
    match fleet {
        Some(fleet) => live_with_nodes(server, settings, fleet, signals).await,
        None => {
            greet(server, settings, None);
            last(server, signals).await
        }
    }
}

/// Runs the agents too, and stops them before the server, so that they can still report their results.
async fn live_with_nodes(
    server: &mut Server,
    settings: &Settings,
    fleet: &Fleet,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let file = settings.file("operator.token_file", "operator.token");
    let token = std::fs::read_to_string(&file).with_context(|| {
        format!("the nodes are enrolled with the operator's token, and {} cannot be read", file.display())
    })?;
    let operator = Operator::with_token(&server.url(), &token)?;
    tokio::select! {
        joined = fleet.join(&operator) => joined?,
        ended = last(server, signals) => return ended,
    }
    let (stop, stopped) = watch::channel(false);
    let agents = fleet.agents();
    // Not spawned: the kernel ties each agent to the thread that starts it, and this thread lasts.
    let mut agents = std::pin::pin!(try_join_all(agents.iter().map(|agent| agent.keep(stopped.clone()))));
    let wanted = async {
        let table = tokio::select! {
            table = fleet.ready(&operator) => table?,
            ended = last(server, signals) => return ended,
        };
        greet(server, settings, Some(&table));
        last(server, signals).await
    };
    let lived = tokio::select! {
        lived = wanted => lived,
        failed = &mut agents => return failed.map(drop),
    };
    stop.send_replace(true);
    let stopped = agents.await;
    lived.and(stopped.map(drop))
}

/// Waits for a signal, or until the server ends by itself.
async fn last(server: &mut Server, signals: &mut Signals) -> anyhow::Result<()> {
    tokio::select! {
        () = signals.come() => Ok(()),
        error = server.ended() => Err(error),
    }
}

fn greet(server: &Server, settings: &Settings, nodes: Option<&str>) {
    let token = settings.file("operator.token_file", "operator.token");
    println!("muster is up at {}  (Ctrl-C stops it)", server.url());
    println!("  data       {}", settings.data_dir().display());
    println!("  operator   {}", token.display());
    if let Some(table) = nodes {
        print!("{table}");
    }
    println!("try:");
    println!("  muster login --server {} --token-file {}", server.url(), token.display());
    println!("  muster {}", if nodes.is_some() { "node list" } else { "status" });
    println!("  muster tenant create acme");
}

async fn end(server: Server, settings: &Settings, fleet: Option<&Fleet>) -> anyhow::Result<ExitCode> {
    server.stop().await?;
    match fleet {
        Some(fleet) if fleet.outlives_us() => {
            let data = settings.data_dir();
            println!("muster is down; its cells keep running");
            println!("  muster up --nodes … --data-dir {}   finds them again", data.display());
            println!("  muster down --data-dir {}   removes them", data.display());
        }
        _ => println!("muster is down; nothing runs any more"),
    }
    Ok(ExitCode::SUCCESS)
}
