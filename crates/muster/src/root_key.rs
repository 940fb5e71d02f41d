//! `muster server root-key`: rotates root keys without downtime.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Arg, ArgMatches, Command};
use muster_db::{Location, Store};
use muster_ids::Env;
use muster_keys::RootKeys;

use crate::server::{settings, with_settings};

fn id() -> Arg {
    Arg::new("id").value_name("ID").required(true).help("The key's id, as `list` shows it")
}

pub(crate) fn command() -> Command {
    Command::new("root-key")
        .about("List and rotate the keys that everything else is encrypted under")
        .long_about(
            "List and rotate the keys that everything else is encrypted under.\n\n\
             On one machine: `rotate`, and a minute later `retire OLD`. With several replicas: `add` on one, \
             copy the file to all, `activate` on all, and when `retire OLD` succeeds, copy the file again. \
             Running servers reload the file.",
        )
        .subcommand_required(true)
        .subcommand(with_settings(Command::new("list")).about("Show the ids, the active one first"))
        .subcommand(with_settings(Command::new("add")).about("Add a fresh key without using it yet"))
        .subcommand(
            with_settings(Command::new("activate")).about("Use a key of the file from now on").arg(id()),
        )
        .subcommand(with_settings(Command::new("rotate")).about("Add a fresh key and use it from now on"))
        .subcommand(
            with_settings(Command::new("retire")).about("Remove a key that is no longer used").arg(id()),
        )
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let Some((verb, matches)) = matches.subcommand() else { bail!("name a command of root-key") };
    let settings = settings(matches)?;
    let file = settings.file("keys.root_key_file", "root.key");
    let id = matches.try_get_one::<String>("id").ok().flatten().cloned().unwrap_or_default();
    match verb {
        "list" => {
            for (at, id) in RootKeys::list(&file)?.iter().enumerate() {
                println!("{id}{}", if at == 0 { "  active" } else { "" });
            }
        }
        "add" => println!(
            "added {}; activate it once every replica has the file",
            RootKeys::add(&file, &Env::system())?
        ),
        "activate" => {
            RootKeys::activate(&file, &id)?;
            println!("{id} is active; running servers rewrap everything under it within a minute");
        }
        "rotate" => {
            let old = RootKeys::list(&file)?.into_iter().next().unwrap_or_default();
            let id = RootKeys::add(&file, &Env::system())?;
            RootKeys::activate(&file, &id)?;
            println!(
                "{id} is active; in a minute remove the old one with `muster server root-key retire {old}`"
            );
        }
        _ => {
            let location = match settings.text("database.url") {
                "" => Location::Sqlite(settings.data_dir().join("muster.db")),
                url => Location::parse(url),
            };
            let store = Store::open(&location, 2).await?;
            let wrapped = store.sealing_keys_under(&id).await?;
            store.close().await;
            RootKeys::retire(&file, &id, wrapped)?;
            println!(
                "{id} is removed from the file; old backups that need it need the key file of that backup"
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}
