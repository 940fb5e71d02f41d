//! Backups of the embedded database: database and root key together, because neither is usable without the other, and the
//! registry's content.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use muster_db::{Location, Store};
use muster_http::Settings;

use crate::server::{settings, with_settings};

fn folder(name: &'static str, help: &'static str) -> Arg {
    Arg::new("folder").value_name(name).required(true).value_parser(value_parser!(PathBuf)).help(help)
}

pub(crate) fn backup_command() -> Command {
    with_settings(Command::new("backup"))
        .about("Copy the embedded database, the root key and the registry's content to a new folder, also while the server runs")
        .arg(folder("FOLDER", "A folder that does not exist yet; it will be readable by you alone"))
        .arg(
            Arg::new("without-content")
                .long("without-content")
                .action(clap::ArgAction::SetTrue)
                .help("Leave the registry's content out: it is backed up separately, after the database"),
        )
}

pub(crate) fn restore_command() -> Command {
    with_settings(Command::new("restore"))
        .about("Put a backup in place; the server must be stopped")
        .arg(folder("FOLDER", "The folder that `backup` created"))
}

fn embedded(settings: &Settings) -> anyhow::Result<PathBuf> {
    let location = match settings.text("database.url") {
        "" => Location::Sqlite(settings.data_dir().join("muster.db")),
        url => Location::parse(url),
    };
    match location {
        Location::Sqlite(path) => Ok(path),
        Location::Postgres(_) => {
            bail!("back up PostgreSQL with its own tools (pg_dump, or continuous archiving)")
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
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { bail!("name a target folder") };
    let database = embedded(&settings)?;
    if !database.exists() {
        bail!("there is no database at {}", database.display());
    }
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("creating {}: it must not exist yet", folder.display()))?;
    // Content before and after the database: every file that the copied rows reference existed at one of the two times.
    let (content, kept) = (settings.file("registry.dir", "registry"), folder.join("registry"));
    let with_content = !matches.get_flag("without-content") && content.exists();
    if with_content {
        copy_content(&content, &kept)?;
    }
    let store = Store::open(&Location::Sqlite(database), 1).await?;
    let copy = folder.join("muster.db");
    store.backup_to(&copy).await?;
    store.close().await;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600))?;
    std::fs::File::open(&copy)?.sync_all()?;
    copy_private(&settings.file("keys.root_key_file", "root.key"), &folder.join("root.key"))?;
    let what = match with_content {
        true => {
            copy_content(&content, &kept)?;
            "muster.db, root.key and registry"
        }
        false => "muster.db and root.key",
    };
    println!(
        "wrote {what} to {}; keep it secret: the first two contain every secret in readable form",
        folder.display()
    );
    Ok(ExitCode::SUCCESS)
}

/// Copies the registry's completed files that are missing. A hard link would be faster, but damage to one would damage
/// both.
fn copy_content(from: &Path, to: &Path) -> anyhow::Result<()> {
    let failed = |path: &Path| format!("copying {}", path.display());
    let private = |path: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    private(to).with_context(|| failed(to))?;
    for name in ["storage.id", "database.id"] {
        if !to.join(name).exists() {
            copy_private(&from.join(name), &to.join(name))?;
        }
    }
    for shelf in std::fs::read_dir(from.join("blobs")).with_context(|| failed(from))? {
        let shelf = shelf.with_context(|| failed(from))?;
        let target = to.join("blobs").join(shelf.file_name());
        private(&target).with_context(|| failed(&target))?;
        for file in std::fs::read_dir(shelf.path()).with_context(|| failed(&shelf.path()))? {
            let file = file.with_context(|| failed(&shelf.path()))?;
            let target = target.join(file.file_name());
            if target.exists() {
                continue;
            }
            match std::fs::copy(file.path(), &target) {
                Ok(_) => {}
                // It was collected as garbage since the listing: no retained row references it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| failed(&file.path())),
            }
        }
    }
    Ok(())
}

pub(crate) async fn restore(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let settings = settings(matches)?;
    let Some(folder) = matches.get_one::<PathBuf>("folder") else { bail!("name a source folder") };
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
    // A backup that does not open is not restored.
    let check =
        Store::open(&Location::Sqlite(source.clone()), 1).await.context("the backup does not open")?;
    check.close().await;
    if let Some(parent) = database.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let content = settings.file("registry.dir", "registry");
    if folder.join("registry").exists() {
        if content.exists() {
            bail!("{} exists: move it away first, nothing is overwritten", content.display());
        }
        copy_content(&folder.join("registry"), &content)?;
    }
    copy_private(&source, &database)?;
    copy_private(&folder.join("root.key"), &root_key)?;
    let also = if content.exists() { format!(" and {}", content.display()) } else { String::new() };
    println!("restored {}, {}{also}; start the server", database.display(), root_key.display());
    Ok(ExitCode::SUCCESS)
}
