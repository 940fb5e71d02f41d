//! The requests, and the allocations in whose name they are claimed.

use muster_db::{Result, Store};
use muster_ids::{AllocationId, Env};
use muster_model::allocation::Allocation;
use muster_model::node::Capacity;
use muster_model::placement::Strategy;

use crate::options::Options;

/// Sizes requested in turn, each packed and spread; one in eight needs no GPU.
const GPUS: [i64; 8] = [1, 2, 1, 4, 0, 2, 8, 4];

/// Inserts an allocation that holds nothing. It is claimed for repeatedly: the benchmark measures the placement, not the
/// inserts.
pub(crate) async fn ticket(store: &Store, env: &Env, options: &Options) -> Result<Allocation> {
    let id: AllocationId = env.id();
    let (name, nothing) = (id.to_string(), Capacity::default());
    let ticket = Allocation::requested(id, options.tenant, options.project, &name, nothing, env.now());
    let mut tx = store.begin().await?;
    tx.allocation_request(&ticket).await?;
    tx.commit().await?;
    Ok(ticket)
}

/// Returns the request with this number: the same in every run.
pub(crate) fn ask(ticket: &Allocation, number: usize) -> Allocation {
    let gpus = GPUS[number % GPUS.len()];
    let cpus = 2 + 8 * gpus;
    let strategy = Strategy::ALL[number / GPUS.len() % 2];
    let capacity = Capacity { gpus, cpus, memory_mb: 8 * 1024 * cpus, disk_mb: 10 * 1024 * cpus };
    Allocation { capacity, strategy, ..ticket.clone() }
}
