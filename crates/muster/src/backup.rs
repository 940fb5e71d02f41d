//! Backups of the embedded store: database and root key together, because one is worth nothing without the other.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use muster_server::Settings;
use muster_store::{Location, Store};

use crate::server::{settings, with_settings};

fn folder(name: &'static str, help: &'static str) -> Arg {
    Arg::new("folder").value_name(name).required(true).value_parser(value_parser!(PathBuf)).help(help)
}

pub(crate) fn backup_command() -> Command {
    with_settings(Command::new("backup"))
        .about("Copy the embedded database and the root key to a new folder, also while the server runs")
        .arg(folder("FOLDER", "A folder that does not exist yet; it will be readable by you alone"))
}

pub(crate) fn restore_command() -> Command {
    with_settings(Command::new("restore"))
        .about("Put a backup in place; the server must be stopped")
        .arg(folder("FOLDER", "The folder that `backup` made"))
}

fn embedded(settings: &Settings) -> anyhow::Result<PathBuf> {
    let location = match settings.text("database.url") {
        "" => Location::Sqlite(settings.data_dir().join("muster.db")),
        url => Location::parse(url),
    };
    match location {
        Location::Sqlite(path) => Ok(path),
        Location::Postgres(_) => {
            bail!("PostgreSQL is backed up with its own tools (pg_dump, or continuous archiving)")
        }
    }
}

fn copy_private(from: &Path, to: &Path) -> anyhow::Result<()> {
    let failed = || format!("copying {} to {}", from.display(), to.display());
    std::fs::copy(from, to).with_context(failed)?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o600)).with_context(failed)?;
    std::fs::File::open(to).and_then(|file| file.sync_all()).with_context(failed)
}

pub(crate) async fn backup(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let settings = settings(matches)?;
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { bail!("say where to") };
    let database = embedded(&settings)?;
    if !database.exists() {
        bail!("there is no database at {}", database.display());
    }
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("making {}: it must not exist yet", folder.display()))?;
    let store = Store::open(&Location::Sqlite(database), 1).await?;
    let copy = folder.join("muster.db");
    store.backup_to(&copy).await?;
    store.close().await;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600))?;
    std::fs::File::open(&copy)?.sync_all()?;
    copy_private(&settings.file("keys.root_key_file", "root.key"), &folder.join("root.key"))?;
    println!(
        "wrote muster.db and root.key to {}; whoever has both can read every secret in them",
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn restore(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let settings = settings(matches)?;
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { bail!("say where from") };
    let (database, root_key) = (embedded(&settings)?, settings.file("keys.root_key_file", "root.key"));
    let leftover = PathBuf::from(format!("{}-wal", database.display()));
    for target in [&database, &leftover, &root_key] {
        if target.exists() {
            bail!("{} exists: move it away first, nothing is overwritten", target.display());
        }
    }
    let source = folder.join("muster.db");
    if !source.exists() || !folder.join("root.key").exists() {
        bail!("{} is not a backup: muster.db or root.key is missing", folder.display());
    }
    // A copy that does not open is not put in place.
    let check =
        Store::open(&Location::Sqlite(source.clone()), 1).await.context("the backup does not open")?;
    check.close().await;
    if let Some(parent) = database.parent() {
        std::fs::create_dir_all(parent)?;
    }
    copy_private(&source, &database)?;
    copy_private(&folder.join("root.key"), &root_key)?;
    println!("restored {} and {}; start the server", database.display(), root_key.display());
    Ok(ExitCode::SUCCESS)
}
