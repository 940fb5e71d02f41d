//! The nodes of `muster up --nodes`: their testbed, enrolment and readiness.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use muster_agent::inventory::{DiskReserve, Reserve};
use muster_agent::{Folder, Identity, Invitation, Machine, Trust, join, real};
use muster_agent_sim::fake_gpus;
use muster_http::Settings;
use muster_ids::Env;

use crate::agent::enrolment::Operator;
use crate::up::address_pool::{Blocks, Claim};
use crate::up::agent::Agent;
use crate::up::idle::agent_ended;
use crate::up::program::PROGRAMS;
use crate::up::record::{Kind, Nodes, Record, names};
use crate::up::testbed::{MOST_NODES, Testbed, free_block, used_blocks};

/// The server's port in the testbed. Each testbed has its own address, so ports do not collide.
const PORT: u16 = 7481;
/// Default host directories for cells: programs and their libraries.
const HOST_DIRECTORIES: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// Time for a node to become ready; after it, the node's log has the reason.
const PATIENCE: Duration = Duration::from_secs(60);

/// Adds the node flags of `muster up`.
pub(crate) fn with_nodes(command: Command) -> Command {
    const HEADING: &str = "Nodes on this machine";
    let flag = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).help_heading(HEADING)
    };
    let folder =
        |arg: Arg| arg.value_parser(value_parser!(PathBuf)).value_hint(ValueHint::DirPath).requires("nodes");
    command
        .arg(
            flag("nodes", "N", "Also run N nodes on this machine, each in a network namespace of its own; needs root")
                .value_parser(value_parser!(u8).range(1..=i64::from(MOST_NODES))),
        )
        .arg(
            Arg::new("simulated")
                .long("simulated")
                .action(ArgAction::SetTrue)
                .requires("nodes")
                .help_heading(HEADING)
                .help("Nodes whose cells are only records and isolate nothing; works without root and without any tool"),
        )
        .arg(
            flag("fake-gpus", "N", "Simulated GPUs of each node")
                .default_value("8")
                .value_parser(value_parser!(u32).range(0..=64)),
        )
        .arg(folder(flag("images", "FOLDER", "An OCI layout with images that cells may use [default: images in data.dir]")))
        .arg(
            flag("host-directory", "PATH", "A directory of this machine that cells may use, read-only; may be given several times [default: /usr /bin /sbin /lib /lib64]")
                .action(ArgAction::Append)
                .requires("nodes"),
        )
        .arg(
            folder(flag("shared-files", "FOLDER", "Folder of directories that an app's members share [default: a folder in data.dir]"))
        )
        .arg(
            folder(flag("run-dir", "FOLDER", "Folder of mounts and namespaces while the machine runs"))
                .default_value("/run/muster"),
        )
}

/// The nodes to run.
pub(crate) struct Fleet {
    /// Locked, so that no other process uses the folder.
    nodes: Nodes,
    #[expect(dead_code, reason = "it is held to reserve the addresses and user ids")]
    claim: Option<Claim>,
    kind: Kind,
    count: u8,
    gpus: u32,
    images: Option<PathBuf>,
    host_directories: Vec<String>,
    shared_files: PathBuf,
    server: String,
    env: Env,
}

impl Fleet {
    /// Prepares the nodes for `--nodes`: raises the testbed, and makes the server listen on it.
    pub(crate) fn prepare(matches: &ArgMatches, settings: &mut Settings) -> anyhow::Result<Option<Self>> {
        let Some(&count) = matches.get_one::<u8>("nodes") else { return Ok(None) };
        if !settings.text("tls.cert_file").is_empty() {
            bail!("--nodes works with the plain API on loopback: leave out --tls-cert-file");
        }
        let simulated = matches.get_flag("simulated");
        if simulated {
            check_simulated(settings)?;
        } else {
            check_machine(settings, count)?;
        }
        let data = std::path::absolute(settings.data_dir())?;
        let nodes = Nodes::make(&data)?;
        let run: &PathBuf = matches.get_one("run-dir").context("--run-dir")?;
        let run = std::path::absolute(run)?;
        let found = nodes.read()?;
        same_kind(found.as_ref(), simulated)?;
        let _turn = if simulated { None } else { Some(turn(&run)?) };
        let env = Env::system();
        let claimed = if simulated { None } else { Some(claimed(found.as_ref(), &data)?) };
        let record = settle(found, count, claimed.as_ref().map(|(block, _)| *block), &run, &env);
        nodes.write(&record)?;
        if let Kind::Cells(testbed) = &record.kind {
            testbed.raise(count)?;
            settings.set("nodes.listen", format!("{}:{PORT}", testbed.address(0)), "a flag")?;
        }
        let images = match matches.get_one::<PathBuf>("images") {
            Some(folder) => Some(std::path::absolute(folder)?),
            None => Some(data.join("images")).filter(|folder| folder.is_dir()),
        };
        let host_directories = match matches.get_many::<String>("host-directory") {
            Some(all) => all.cloned().collect(),
            None => {
                let there = HOST_DIRECTORIES.iter().filter(|path| Path::new(path).is_dir());
                there.map(|path| (*path).to_owned()).collect()
            }
        };
        let shared_files = match matches.get_one::<PathBuf>("shared-files") {
            // Fail here: an agent would only log it, and be restarted again and again.
            Some(folder) if !folder.is_dir() => {
                bail!(
                    "--shared-files {} is not a directory: name one on the file system to share",
                    folder.display()
                )
            }
            // An agent follows no link to it. Here all nodes are this machine, so links are the user's own.
            Some(folder) => folder.canonicalize()?,
            None => nodes.shared_files()?.canonicalize()?,
        };
        let server = format!("https://{}", settings.text("nodes.listen"));
        let gpus = matches.get_one("fake-gpus").copied().unwrap_or_default();
        let (claim, kind) = (claimed.map(|(_, claim)| claim), record.kind);
        Ok(Some(Self {
            nodes,
            claim,
            kind,
            count,
            gpus,
            images,
            host_directories,
            shared_files,
            server,
            env,
        }))
    }

    /// Reports whether anything keeps running when this process ends.
    pub(crate) fn outlives_us(&self) -> bool {
        matches!(self.kind, Kind::Cells(_))
    }

    /// Returns a node's address in the testbed.
    fn address(&self, number: u8) -> String {
        match &self.kind {
            Kind::Simulated => "-".to_owned(),
            Kind::Cells(testbed) => testbed.address(number).to_string(),
        }
    }

    /// Returns the disk reserve: all nodes share one file system, and divide what a single node would offer.
    fn reserve(&self) -> DiskReserve {
        DiskReserve::among(self.count, &self.nodes.node(""))
    }

    /// Returns the agents, by node name.
    pub(crate) fn agents(&self) -> Vec<Agent> {
        (1..=self.count).zip(names(self.count)).map(|(number, name)| self.agent(number, name)).collect()
    }

    fn agent(&self, number: u8, name: String) -> Agent {
        let folder = self.nodes.node(&name);
        let mut arguments: Vec<OsString> = vec!["--data-dir".into(), folder.clone().into()];
        arguments.extend(["--log-format", "text", "--fake-gpus"].map(OsString::from));
        arguments.push(self.gpus.to_string().into());
        if let DiskReserve::Mib(mib) = self.reserve() {
            arguments.extend(["--reserve-disk-mb".into(), mib.to_string().into()]);
        }
        let mut flag = |name: &str, value: OsString| arguments.extend([format!("--{name}").into(), value]);
        let namespace = match &self.kind {
            Kind::Simulated => {
                flag("driver", "simulated".into());
                None
            }
            Kind::Cells(testbed) => {
                flag("driver", "cells".into());
                flag("address", testbed.address(number).to_string().into());
                flag("id-base", testbed.id_base(number).to_string().into());
                flag("run-dir", testbed.node_run(&name).into());
                if let Some(images) = &self.images {
                    flag("images", images.into());
                }
                flag("shared-files", self.shared_files.clone().into());
                // All projects are the user's own, and the disk of their machine may be small.
                flag("project-images-percent", "100".into());
                for directory in &self.host_directories {
                    flag("host-directory", directory.into());
                }
                Some(testbed.namespace(&name))
            }
        };
        Agent { log: folder.join("agent.log"), name, namespace, arguments }
    }

    /// Enrols and joins the nodes that have not joined, with a one-time token each.
    pub(crate) async fn join(&self, operator: &Operator) -> anyhow::Result<()> {
        for name in names(self.count) {
            let folder = Folder::new(self.nodes.node(&name));
            folder.make()?;
            agent_ended(&folder).await?;
            if Identity::lookup(&folder)?.is_some() {
                continue;
            }
            let fake_gpus = fake_gpus(&folder, Some(self.gpus), &name, &self.env)?;
            let reserve = Reserve { disk: self.reserve(), ..Reserve::default() };
            let machine = Machine::This { data_dir: folder.path().to_owned(), reserve, fake_gpus };
            let inventory = machine.look().await;
            let enrolment = operator.enrol(&name).await.with_context(|| format!("enrolling {name}"))?;
            let invitation = Invitation {
                server: self.server.parse()?,
                token: enrolment.token,
                trust: Trust::fingerprint(&enrolment.ca_sha256)?,
                name: name.clone(),
            };
            join(&folder, &invitation, inventory, false, &self.env).await?;
        }
        Ok(())
    }

    /// Approves the agents' hardware, waits until every node is ready, and returns a table of them.
    pub(crate) async fn ready(&self, operator: &Operator) -> anyhow::Result<String> {
        let mut table = format!("  {:<5} {:<15} {:>4}  state\n", "node", "address", "GPUs");
        for (number, name) in (1..=self.count).zip(names(self.count)) {
            let folder = Folder::new(self.nodes.node(&name));
            let identity = Identity::lookup(&folder)?.with_context(|| format!("{name} has not joined"))?;
            let id = identity.node.node_id.to_string();
            let (gpus, state) = match tokio::time::timeout(PATIENCE, settled(operator, &id)).await {
                Ok(seen) => seen?,
                Err(_) => bail!(
                    "{name} was not ready in {} seconds; see {}",
                    PATIENCE.as_secs(),
                    folder.path().join("agent.log").display()
                ),
            };
            table.push_str(&format!("  {name:<5} {:<15} {gpus:>4}  {state}\n", self.address(number)));
        }
        Ok(table)
    }
}

/// Waits until a node is alive and approved; returns its GPUs and state. A cordon is deliberate, so it counts as ready.
async fn settled(operator: &Operator, node: &str) -> anyhow::Result<(i64, String)> {
    loop {
        let seen = operator.node(node).await?;
        let state = seen["state"].as_str().unwrap_or_default();
        if seen["needs_approval"].as_bool() == Some(true) {
            let digest = seen["inventory_digest"]
                .as_str()
                .context("the server returned no digest of the node's hardware")?;
            operator.approve(node, digest).await.with_context(|| format!("approving {node}"))?;
        } else if !matches!(state, "enrolling" | "unreachable") {
            return Ok((seen["total"]["gpus"].as_i64().unwrap_or_default(), state.to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Simulated agents dial the server's listen address, which must stay the same.
fn check_simulated(settings: &Settings) -> anyhow::Result<()> {
    if settings.parsed::<std::net::SocketAddr>("nodes.listen")?.port() == 0 {
        bail!("agents must find the server again: give --nodes-listen a port other than 0");
    }
    Ok(())
}

/// Checks that this machine supports real nodes, before anything is created.
fn check_machine(settings: &Settings, count: u8) -> anyhow::Result<()> {
    let all =
        real::missing_tools().into_iter().chain(real::outdated_tools()).chain(real::missing_of(PROGRAMS));
    let missing: Vec<String> = all.collect::<BTreeSet<_>>().into_iter().collect();
    if !missing.is_empty() {
        bail!(
            "this machine lacks requirements of real cells: {}. `muster up --nodes {count} --simulated` works without",
            missing.join("; ")
        );
    }
    if !settings.is_default("nodes.listen") {
        bail!("with --nodes the server listens for them on a network of their own: leave out --nodes-listen");
    }
    Ok(())
}

/// Refuses to change the kind of existing nodes: either kind cannot find the other's contents.
fn same_kind(found: Option<&Record>, simulated: bool) -> anyhow::Result<()> {
    match (found.map(|record| &record.kind), simulated) {
        (Some(Kind::Simulated), false) => {
            bail!(
                "the nodes of this data folder are simulated: add --simulated, or choose another --data-dir"
            )
        }
        (Some(Kind::Cells(_)), true) => {
            bail!(
                "the nodes of this data folder are not simulated: leave out --simulated, or choose another --data-dir"
            )
        }
        _ => Ok(()),
    }
}

/// Claims the block of addresses and user ids that a data folder has, or gets.
fn claimed(found: Option<&Record>, data: &Path) -> anyhow::Result<(u8, Claim)> {
    let (blocks, data) = (Blocks::machine(), data.canonicalize()?);
    let Some(Kind::Cells(testbed)) = found.map(|record| &record.kind) else {
        return free_block(&blocks, &data, &used_blocks()?);
    };
    let claim = blocks.claim(testbed.block, &data)?.with_context(|| {
        format!(
            "another platform on this machine has the addresses and user ids of this data folder's nodes \
             (see {}): `muster down` there, or choose another --data-dir",
            blocks.file(testbed.block).display()
        )
    })?;
    Ok((testbed.block, claim))
}

/// Returns the record to write, based on the previous one; without a block the nodes are simulated.
fn settle(found: Option<Record>, count: u8, block: Option<u8>, run: &Path, env: &Env) -> Record {
    let nodes = found.as_ref().map_or(0, |record| record.nodes).max(count);
    let kind = match found.map(|record| record.kind) {
        Some(Kind::Cells(testbed)) => Kind::Cells(Testbed { raised: true, ..testbed }),
        Some(Kind::Simulated) => Kind::Simulated,
        None => block.map_or(Kind::Simulated, |block| Kind::Cells(fresh(run, block, env))),
    };
    Record { nodes, kind }
}

/// Checks that cells, which have no privileges on this machine, can traverse the folder to their mounts.
fn passable(run: &Path) -> anyhow::Result<()> {
    for folder in run.ancestors() {
        let facts = folder.metadata().with_context(|| folder.display().to_string())?;
        if facts.permissions().mode() & 0o001 == 0 {
            bail!(
                "cells must be able to enter {}, but only the owner can enter {}: choose another --run-dir",
                run.display(),
                folder.display()
            );
        }
    }
    Ok(())
}

/// Serializes the choice of a block of addresses until this is dropped: two concurrent ones would choose the same.
fn turn(run: &Path) -> anyhow::Result<File> {
    let take = || {
        if !run.exists() {
            DirBuilder::new().recursive(true).mode(0o711).create(run)?;
            // The caller's umask must not lock cells out.
            fs::set_permissions(run, fs::Permissions::from_mode(0o711))?;
        }
        let folder = File::open(run)?;
        folder.lock().map(|()| folder)
    };
    let turn = take().with_context(|| format!("locking {}", run.display()))?;
    passable(run).map(|()| turn)
}

/// Returns a testbed with a unique key.
fn fresh(run: &Path, block: u8, env: &Env) -> Testbed {
    let key = env.bytes::<3>().iter().map(|byte| format!("{byte:02x}")).collect();
    Testbed { key, block, run: run.to_owned(), raised: true }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;

    use super::*;

    #[test]
    fn the_record_grows_and_keeps_its_testbed() {
        let testbed = Testbed { key: "aa".to_owned(), block: 3, run: "/run/m".into(), raised: false };
        let found = Record { nodes: 3, kind: Kind::Cells(testbed.clone()) };
        let settle =
            |count| settle(Some(found.clone()), count, Some(3), Path::new("/run/other"), &Env::for_tests(1));
        let kept = Kind::Cells(Testbed { raised: true, ..testbed });
        assert_eq!(settle(2), Record { nodes: 3, kind: kept.clone() });
        assert_eq!(settle(5), Record { nodes: 5, kind: kept });
        let (run, env) = (Path::new("/run/m"), Env::for_tests(1));
        assert_eq!(super::settle(None, 1, None, run, &env).kind, Kind::Simulated);
        assert!(
            matches!(super::settle(None, 1, Some(7), run, &env).kind, Kind::Cells(testbed) if testbed.block == 7)
        );
        same_kind(Some(&found), false).unwrap();
        assert!(same_kind(Some(&found), true).unwrap_err().to_string().contains("another --data-dir"));
    }

    #[test]
    fn a_folder_that_nobody_gets_through_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("closed/run");
        DirBuilder::new().mode(0o700).create(folder.path().join("closed")).unwrap();
        DirBuilder::new().mode(0o711).create(&run).unwrap();
        let refused = passable(&run).unwrap_err().to_string();
        assert!(refused.contains("choose another --run-dir"), "{refused}");
        passable(Path::new("/usr/bin")).unwrap();
    }
}
