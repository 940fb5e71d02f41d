//! `muster agent simulate`: a fleet of simulated nodes, each a real agent, in one process.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use futures::StreamExt as _;
use muster_agent::{Address, Folder, Identity, Invitation, Machine, Trust, join};
use muster_agent_sim::{Fleet, Member, Word, raise_descriptors, simulated_inventory};
use muster_ids::Env;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use crate::agent::enrolment::Operator;
use crate::agent::tuning::{journal, kill_points, odds, seed, with_knobs};
use crate::agent::{start_logs, with_logs};

/// Number of nodes that join concurrently.
const AT_ONCE: usize = 16;

pub(crate) fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let path = |arg: Arg| arg.value_parser(value_parser!(PathBuf)).value_hint(ValueHint::AnyPath);
    let number = |name: &'static str, default: &'static str, help: &'static str| {
        text(name, "N", help).default_value(default).value_parser(value_parser!(u32).range(0..=1_000_000))
    };
    let simulate = Command::new("simulate")
        .about("Run a fleet of simulated nodes in one process, against a real server")
        .long_about(
            "Run a fleet of simulated nodes in one process, against a real server.\n\n\
             Each is the real agent, with its own certificate and connections; only its sandboxes are \
             simulated. Nodes that have not joined are enrolled through the public API with an operator's \
             token. Their identities are kept in --data-dir, and a restart continues with them. When all \
             wait for work, the line `ready nodes=N` is printed.\n\n\
             With --control, lines on standard input control the fleet; each is answered with one line, `ok \
             …` or `error …`:\n\
             \x20 die WHO         end these agents like kill -9; their records stay\n\
             \x20 revive WHO      start them again\n\
             \x20 partition WHO   cut them off from the network\n\
             \x20 heal WHO        reconnect them\n\
             \x20 fail WHO P      this share of their tasks fails from now on\n\
             \x20 end WHO CELL [SERVICE]  end this cell, or this service of it\n\
             \x20 stop            finish and report running tasks, then end\n\
             WHO is a name, a number from 0, `*` for all, or a share such as `50%`.",
        )
        .arg(number("nodes", "10", "Number of nodes"))
        .arg(number("gpus", "8", "GPUs of each"))
        .arg(number("cpus", "128", "CPUs of each"))
        .arg(number("memory-gib", "1024", "Memory of each, in GiB"))
        .arg(number("disk-gib", "4096", "Disk of each, in GiB"))
        .arg(text("prefix", "TEXT", "Prefix of their names").default_value("sim-"))
        .arg(text("server", "URL", "The server's listener for nodes").default_value("https://127.0.0.1:7481"))
        .arg(text("api", "URL", "The public API").default_value("http://127.0.0.1:7480").env("MUSTER_SERVER"))
        .arg(path(text("token-file", "FILE", "An operator's token [env: MUSTER_TOKEN is the token itself]")))
        .arg(path(text(
            "ca-file",
            "PEM",
            "The certificate authorities of the public API, instead of the machine's",
        )))
        .arg(
            Arg::new("approve")
                .long("approve")
                .action(ArgAction::SetTrue)
                .help("Approve each node's hardware"),
        )
        .arg(
            Arg::new("control")
                .long("control")
                .action(ArgAction::SetTrue)
                .help("Read control lines from standard input"),
        )
        .arg(
            path(text("data-dir", "FOLDER", "Folder of the nodes' identities and sandboxes")).required(true),
        );
    with_knobs(with_logs(simulate, "warn"))
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    start_logs(matches);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let folder = Folder::new(matches.get_one::<PathBuf>("data-dir").context("--data-dir")?);
    folder.make()?;
    let _lock = folder.lock()?;
    let plan = Plan::of(matches)?;
    let needed = u64::from(plan.nodes) * 2 + 64;
    let have = raise_descriptors();
    if have < needed {
        tracing::warn!(
            have,
            needed,
            "too few file descriptors: raise the limit (`ulimit -n`), or some cannot connect"
        );
    }
    let mut fleet =
        Fleet::new(plan.env.clone(), journal(matches)?, kill_points()?, odds(matches)?, seed(matches));
    let gather = async {
        let joins = (1..=plan.nodes).map(|number| plan.ensure(number));
        let mut joins = futures::stream::iter(joins).buffered(AT_ONCE);
        let mut joined = 0_u32;
        while let Some(member) = joins.next().await {
            fleet.add(member?)?;
            joined += 1;
            if joined.is_multiple_of(100) && joined < plan.nodes {
                eprintln!("joined {joined} of {}", plan.nodes);
            }
        }
        fleet.ready().await;
        println!("ready nodes={}", fleet.polling());
        anyhow::Ok(())
    };
    tokio::select! {
        gathered = gather => gathered?,
        _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
        _ = terminate.recv() => return Ok(ExitCode::SUCCESS),
    }
    let mut lines = matches.get_flag("control").then(|| BufReader::new(tokio::io::stdin()).lines());
    loop {
        let line = async {
            match &mut lines {
                Some(lines) => lines.next_line().await,
                None => std::future::pending().await,
            }
        };
        let line = tokio::select! {
            line = line => line?,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        };
        // The controlling process is gone, so end the fleet.
        let Some(line) = line else { break };
        match line.parse::<Word>() {
            Ok(word) => println!("{}", word.obey(&mut fleet).await),
            Err(why) => println!("error {why}"),
        }
        if line.trim() == "stop" {
            return Ok(ExitCode::SUCCESS);
        }
    }
    fleet.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Settings common to all nodes of the fleet.
struct Plan {
    env: Env,
    nodes: u32,
    gpus: u32,
    cpus: u32,
    memory_mb: i64,
    disk_mb: i64,
    prefix: String,
    server: Address,
    folder: PathBuf,
    approve: bool,
    operator: Operator,
}

impl Plan {
    fn of(matches: &ArgMatches) -> anyhow::Result<Self> {
        let number = |name: &str| matches.get_one::<u32>(name).copied().unwrap_or_default();
        let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
        Ok(Self {
            env: Env::system(),
            nodes: number("nodes"),
            gpus: number("gpus"),
            cpus: number("cpus"),
            memory_mb: i64::from(number("memory-gib")) * 1024,
            disk_mb: i64::from(number("disk-gib")) * 1024,
            prefix: text("prefix"),
            server: text("server").parse()?,
            folder: matches.get_one::<PathBuf>("data-dir").context("--data-dir")?.clone(),
            approve: matches.get_flag("approve"),
            operator: Operator::connect(matches)?,
        })
    }

    /// Returns the node with this number; enrols, joins and approves it as far as needed.
    async fn ensure(&self, number: u32) -> anyhow::Result<Member> {
        let name = format!("{}{number:04}", self.prefix);
        let folder = Folder::unflushed(self.folder.join("nodes").join(&name));
        let Self { gpus, cpus, memory_mb, disk_mb, .. } = *self;
        let inventory = simulated_inventory(&name, gpus, cpus, memory_mb, disk_mb);
        let machine = Machine::Fixed(Arc::new(inventory.clone()));
        let digest = inventory.hardware_digest();
        let identity = match Identity::lookup(&folder)? {
            Some(identity) => identity,
            None => {
                let enrolment =
                    self.operator.enrol(&name).await.with_context(|| format!("enrolling {name}"))?;
                let invitation = Invitation {
                    server: self.server.clone(),
                    token: enrolment.token,
                    trust: Trust::fingerprint(&enrolment.ca_sha256)?,
                    name: name.clone(),
                };
                join(&folder, &invitation, inventory, false, &self.env).await?
            }
        };
        if self.approve {
            let node = identity.node.node_id.to_string();
            self.operator.approve(&node, &digest).await.with_context(|| format!("approving {name}"))?;
        }
        Ok(Member { name, folder, machine })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_help_has_every_word_of_the_control() {
        let help = super::command().render_long_help().to_string();
        for word in ["die", "revive", "partition", "heal", "fail", "end", "stop"] {
            assert!(help.contains(&format!("\n  {word} ")), "{word}: {help}");
        }
    }
}
