//! `muster down`: removes everything that `muster up --nodes` created on this machine, and its nodes' contents.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use futures::future::join_all;
use muster_agent::{Folder, real};

use crate::agent::clean::REMOVED;
use crate::server::settings;
use crate::up::address_pool::Blocks;
use crate::up::idle::{agent_ended, server_ended};
use crate::up::program::inside;
use crate::up::record::{Kind, Nodes, Record, names};
use crate::up::testbed::Testbed;

/// Maximum length of the shown output of `muster agent clean`.
const SAID: usize = 4096;

pub(crate) fn command() -> Command {
    Command::new("down")
        .about(
            "Remove from this machine everything of `muster up --nodes`: cells, disks, networks, namespaces",
        )
        .long_about(
            "Remove from this machine everything of `muster up --nodes`: cells, disks, networks, namespaces. \
             Nothing may still run with the data folder; agents and a server that are ending are waited for. \
             It can be repeated, also after a crash, and checks again each time. The exit code is 1 if \
             something could not be removed; it is listed.",
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .env("MUSTER_CONFIG")
                .value_parser(value_parser!(PathBuf))
                .help("The TOML file with settings of that `muster up`"),
        )
        .arg(
            Arg::new("data.dir")
                .long("data-dir")
                .value_name("FOLDER")
                .help("The data folder of that `muster up` [env: MUSTER_DATA_DIR]"),
        )
        .arg(
            Arg::new("delete-data")
                .long("delete-data")
                .action(ArgAction::SetTrue)
                .help("Also delete the data folder: the database, the keys, the nodes' identities"),
        )
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let data = std::path::absolute(settings(matches)?.data_dir())?;
    let mut said = Vec::new();
    if let Some(nodes) = Nodes::find(&data)? {
        match nodes.read()? {
            // On a repeat too: something may have been created after the first run.
            Some(Record { nodes: count, kind: Kind::Cells(testbed) })
                if testbed.raised || real::missing_tools().is_empty() =>
            {
                let (removed, left) = clear(&nodes, count, &testbed).await;
                if !left.is_empty() {
                    for thing in &left {
                        eprintln!("muster: {thing}");
                    }
                    bail!(
                        "the above could not be removed, and the data folder is unchanged: fix it, then repeat `muster down`"
                    );
                }
                if testbed.raised || removed > 0 {
                    said.push(format!(
                        "cells, disks and networks of {count} node(s), their namespaces and their wire"
                    ));
                }
                if testbed.raised {
                    let block = testbed.block;
                    let kind = Kind::Cells(Testbed { raised: false, ..testbed });
                    nodes.write(&Record { nodes: count, kind })?;
                    Blocks::machine().give_back(block, &data.canonicalize()?)?;
                }
            }
            Some(Record { nodes: count, kind: Kind::Simulated }) => {
                for name in names(count).filter(|name| nodes.node(name).is_dir()) {
                    agent_ended(&Folder::new(nodes.node(&name))).await?;
                }
                println!("the nodes of {} are simulated: nothing of them is on the machine", data.display());
            }
            _ => {}
        }
    }
    if matches.get_flag("delete-data") {
        server_ended(&data).await?;
        if delete(&data)? {
            said.push(format!("the data folder {}", data.display()));
        }
    }
    match said.as_slice() {
        [] => println!("nothing is there to remove"),
        said => println!("removed: {}", said.join("; ")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes everything of all nodes; returns the number of removals and the failures. The namespace of a node that is not
/// clean stays, with its network, so that it can be retried.
async fn clear(nodes: &Nodes, count: u8, testbed: &Testbed) -> (usize, Vec<String>) {
    let missing = real::missing_tools();
    if !missing.is_empty() {
        return (0, vec![format!("anything, because this machine lacks {}", missing.join("; "))]);
    }
    let cleaned = join_all((1..=count).zip(names(count)).map(|(number, name)| async move {
        let removed = clean(nodes, testbed, number, &name).await;
        let cleaned = removed.and_then(|removed| testbed.remove_node(&name).map(|()| removed));
        cleaned.map_err(|error| format!("{name}: {error:#}"))
    }));
    let (mut removed, mut left) = (0, Vec::new());
    for cleaned in cleaned.await {
        match cleaned {
            Ok(things) => removed += things,
            Err(error) => left.push(error),
        }
    }
    if left.is_empty()
        && let Err(error) = testbed.remove_wire()
    {
        left.push(format!("the wire: {error:#}"));
    }
    (removed, left)
}

/// Runs a node's own cleanup in its namespace; returns the number of removed resources.
async fn clean(nodes: &Nodes, testbed: &Testbed, number: u8, name: &str) -> anyhow::Result<usize> {
    let folder = nodes.node(name);
    if !folder.is_dir() {
        return Ok(0);
    }
    agent_ended(&Folder::new(&folder)).await?;
    let namespace = testbed.shelter(name)?;
    let mut words: Vec<OsString> = inside(&namespace).into();
    words.push(std::env::current_exe()?.into());
    words.extend(["agent", "clean", "--log-format", "text", "--data-dir"].map(OsString::from));
    words.extend([folder.into(), "--run-dir".into(), testbed.node_run(name).into()]);
    words.extend(["--id-base".into(), testbed.id_base(number).to_string().into()]);
    let mut command = tokio::process::Command::from(muster_exec::command(&words[0]));
    command.args(&words[1..]).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let ended = command.output().await.context("starting `muster agent clean`")?;
    if !ended.status.success() {
        let said = ended.stderr.get(..SAID).unwrap_or(&ended.stderr);
        bail!("`muster agent clean` failed ({}): {}", ended.status, String::from_utf8_lossy(said).trim());
    }
    let said = String::from_utf8_lossy(&ended.stdout);
    Ok(said.lines().filter_map(|line| line.strip_prefix(REMOVED)?.parse::<usize>().ok()).sum())
}

/// Deletes a data folder; returns whether there was one. A folder that does not look like ours is refused: the deletion
/// is final.
fn delete(data: &Path) -> anyhow::Result<bool> {
    match fs::remove_dir(data) {
        // It was empty: left by an interrupted start.
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(_) => {}
    }
    if !["muster.db", "root.key", "nodes"].iter().any(|name| data.join(name).exists()) {
        bail!("{} does not look like a data folder of muster: nothing was deleted", data.display());
    }
    muster_disk::remove_tree(data, None).with_context(|| format!("deleting {}", data.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{command, delete};

    #[test]
    fn the_command_line_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn a_folder_that_is_not_ours_is_not_deleted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("letter"), "dear").unwrap();
        assert!(delete(folder.path()).is_err() && folder.path().exists());
        assert!(!delete(&folder.path().join("missing")).unwrap());
        let ours = folder.path().join("ours");
        std::fs::create_dir_all(ours.join("nodes/n1")).unwrap();
        assert!(delete(&ours).unwrap() && !ours.exists());
    }
}
