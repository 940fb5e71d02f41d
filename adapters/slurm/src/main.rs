//! The adapter of the app `slurm`: real Slurm clusters through the public API alone.
//!
//! What is decided (`config`, `render`, `node`, `queue`, `gres`) is pure and tested here; what is done (`controller`, `worker`, `login`,
//! `reconcile`) only asks the platform for tasks in cells. The state of a cluster is Slurm's own: this process keeps none, and any
//! step may be run again by another.

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
