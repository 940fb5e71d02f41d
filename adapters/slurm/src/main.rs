//! The adapter of the app `slurm`: real Slurm clusters through the public API alone.
//!
//! The decisions (`config`, `render`, `node`, `queue`, `gres`) are pure and tested here; the actions (`controller`, `worker`,
//! `login`, `reconcile`) only request tasks in cells from the platform. The state of a cluster is Slurm's own: this process keeps
//! none, and another process may rerun any step.

mod adapter;
mod config;
mod controller;
mod gres;
mod key;
mod login;
mod node;
mod places;
mod queue;
mod reconcile;
mod render;
mod slurm;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_adapter_kit::main(adapter::Slurm)
}
