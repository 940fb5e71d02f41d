//! `muster agent inventory`: prints this machine's hardware report, without a server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};
use muster_agent::inventory::read;
use muster_agent_sim::FakeGpus;
use muster_wire::inventory::Inventory;

use crate::agent::{data_dir, fake_gpus_arg, reserve, with_reserve};

pub(crate) fn command() -> Command {
    let inventory = Command::new("inventory")
        .about("Show this machine's inventory; no server is needed")
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("FORM")
                .value_parser(["table", "json"])
                .default_value("table")
                .help("Text for people, or JSON for programs"),
        )
        .arg(data_dir())
        .arg(fake_gpus_arg());
    with_reserve(inventory)
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let data_dir = matches.get_one::<PathBuf>("data-dir").context("--data-dir")?;
    let fake_gpus = matches.get_one::<u32>("fake-gpus");
    let fake_gpus = fake_gpus.map(|gpus| FakeGpus { gpus: *gpus, seed: "here".to_owned() }.gpus());
    let inventory = read(Path::new("/"), data_dir, reserve(matches), fake_gpus.as_deref());
    match matches.get_one::<String>("output").map(String::as_str) {
        Some("json") => println!("{}", serde_json::to_string_pretty(&inventory)?),
        _ => print!("{}", table(&inventory)),
    }
    Ok(ExitCode::SUCCESS)
}

fn table(inventory: &Inventory) -> String {
    let Inventory { cpus, reserved, .. } = inventory;
    let mut lines = vec![
        format!("host       {}, {}, kernel {}", inventory.hostname, inventory.os, inventory.kernel),
        format!("cpus       {} in {} socket(s), {}", cpus.count, cpus.sockets, cpus.model),
        format!("memory     {} MiB", inventory.memory_mb),
        format!("disk       {} MiB for allocations", inventory.disk_mb),
        format!("reserved   {} CPU(s) and {} MiB of memory for checks", reserved.cpus, reserved.memory_mb),
        format!("digest     {}", inventory.hardware_digest()),
    ];
    for node in &inventory.numa {
        lines.push(format!("numa {:<5} cpus {}, {} MiB", node.ordinal, node.cpus, node.memory_mb));
    }
    for device in &inventory.network {
        let speed = device.speed_mbps.map_or(String::new(), |speed| format!(", {speed} Mbit/s"));
        let rdma = if device.rdma { ", RDMA" } else { "" };
        lines.push(format!("network    {} {} {}{speed}{rdma}", device.name, device.mac, device.state));
    }
    for gpu in &inventory.gpus {
        lines.push(format!(
            "gpu {:<6} {} {} MiB, numa {}, island {}, {}{}",
            gpu.ordinal,
            gpu.model,
            gpu.memory_mb,
            gpu.numa,
            gpu.island,
            gpu.uuid,
            if gpu.mig { ", MIG" } else { "" }
        ));
    }
    if inventory.gpus.is_empty() {
        lines.push("gpus       none".to_owned());
    }
    lines.extend(inventory.notes.iter().map(|note| format!("note       {note}")));
    lines.iter().map(|line| format!("{line}\n")).collect()
}
