//! `muster down`: removes from this machine what `muster up --nodes` made and what its nodes hold.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use futures::future::join_all;
use muster_agent::{Folder, real};

use crate::server::settings;
use crate::up_block::Blocks;
use crate::up_ground::Ground;
use crate::up_nodes::free;
use crate::up_program::{PATH, inside};
use crate::up_record::{Kind, Nodes, Record, names};

/// How much of what `muster agent clean` says is shown.
const SAID: usize = 4096;

pub(crate) fn command() -> Command {
    Command::new("down")
        .about("Remove from this machine what `muster up --nodes` made: cells, disks, networks, namespaces")
        .long_about(
            "Remove from this machine what `muster up --nodes` made: cells, disks, networks, namespaces. Nothing may run any \
             more with the data folder. It may be repeated, also after a crash and when nothing is there. The exit code is 1 \
             when something could not be removed, and what that is is listed.",
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
            Some(Record { nodes: count, kind: Kind::Cells(ground) }) if ground.raised => {
                let left = clear(&nodes, count, &ground).await;
                if !left.is_empty() {
                    for thing in &left {
                        eprintln!("muster: {thing}");
                    }
                    bail!(
                        "the above could not be removed, and the data folder stays as it is: mend it, then repeat `muster down`"
                    );
                }
                let block = ground.block;
                nodes
                    .write(&Record { nodes: count, kind: Kind::Cells(Ground { raised: false, ..ground }) })?;
                Blocks::machine().give_back(block, &data.canonicalize()?)?;
                said.push(format!(
                    "cells, disks and networks of {count} node(s), their namespaces and their wire"
                ));
            }
            Some(Record { kind: Kind::Simulated, .. }) => {
                println!("the nodes of {} are simulated: nothing of them is on the machine", data.display());
            }
            _ => {}
        }
    }
    if matches.get_flag("delete-data") && delete(&data)? {
        said.push(format!("the data folder {}", data.display()));
    }
    match said.as_slice() {
        [] => println!("nothing is there to remove"),
        said => println!("removed: {}", said.join("; ")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes everything of all nodes, and says what could not be. The namespace of a node that is not clean stays, and the wire
/// with it, so that it can be tried again.
async fn clear(nodes: &Nodes, count: u8, ground: &Ground) -> Vec<String> {
    let missing = real::missing_tools();
    if !missing.is_empty() {
        return vec![format!("anything, because this machine lacks {}", missing.join("; "))];
    }
    let cleaned = join_all((1..=count).zip(names(count)).map(|(number, name)| async move {
        let cleaned = clean(nodes, ground, number, &name).await.and_then(|()| ground.remove_node(&name));
        cleaned.map_err(|error| format!("{name}: {error:#}"))
    }));
    let mut left: Vec<String> = cleaned.await.into_iter().filter_map(Result::err).collect();
    if left.is_empty()
        && let Err(error) = ground.remove_wire()
    {
        left.push(format!("the wire: {error:#}"));
    }
    left
}

/// Has a node's own program clean it, in its namespace.
async fn clean(nodes: &Nodes, ground: &Ground, number: u8, name: &str) -> anyhow::Result<()> {
    let folder = nodes.node(name);
    if !folder.is_dir() {
        return Ok(());
    }
    free(&Folder::new(&folder)).await?;
    let namespace = ground.shelter(name)?;
    let mut words: Vec<OsString> = inside(&namespace).into();
    words.push(std::env::current_exe()?.into());
    words.extend(["agent", "clean", "--log-format", "text", "--data-dir"].map(OsString::from));
    words.extend([folder.into(), "--run-dir".into(), ground.node_run(name).into()]);
    words.extend(["--id-base".into(), ground.id_base(number).to_string().into()]);
    let mut command = tokio::process::Command::new(&words[0]);
    command.args(&words[1..]).env_clear().env("PATH", PATH).stdin(Stdio::null()).kill_on_drop(true);
    let ended = command.output().await.context("starting `muster agent clean`")?;
    if !ended.status.success() {
        let said = ended.stderr.get(..SAID).unwrap_or(&ended.stderr);
        bail!("`muster agent clean` failed ({}): {}", ended.status, String::from_utf8_lossy(said).trim());
    }
    Ok(())
}

/// Deletes a data folder; whether there was one. One that does not look like ours is refused: what is deleted is gone.
fn delete(data: &Path) -> anyhow::Result<bool> {
    match fs::remove_dir(data) {
        // Nothing was in it: a start that was interrupted made it.
        Ok(()) => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(_) => {}
    }
    if !["muster.db", "root.key", "nodes"].iter().any(|name| data.join(name).exists()) {
        bail!("{} does not look like a data folder of muster: nothing was deleted", data.display());
    }
    fs::remove_dir_all(data).with_context(|| format!("deleting {}", data.display()))?;
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
