//! What is asked for, and the rows in whose name it is claimed.

use muster_db::{Result, Store};
use muster_ids::{AllocationId, World};
use muster_model::allocation::Allocation;
use muster_model::node::Capacity;
use muster_model::placement::Strategy;

use crate::options::Options;

/// The sizes that are asked for in turn, each packed and spread; one in eight needs no GPU.
const GPUS: [i64; 8] = [1, 2, 1, 4, 0, 2, 8, 4];

/// An allocation that exists and holds nothing. It is claimed for again and again: what is measured is the placement, and
/// not the making of rows.
pub(crate) async fn ticket(store: &Store, world: &World, options: &Options) -> Result<Allocation> {
    let id: AllocationId = world.id();
    let (name, nothing) = (id.to_string(), Capacity::default());
    let ticket = Allocation::requested(id, options.tenant, options.project, &name, nothing, world.now());
    let mut tx = store.begin().await?;
    tx.allocation_request(&ticket).await?;
    tx.commit().await?;
    Ok(ticket)
}

/// The ask with this number: the same for everybody who counts the same way.
pub(crate) fn ask(ticket: &Allocation, number: usize) -> Allocation {
    let gpus = GPUS[number % GPUS.len()];
    let cpus = 2 + 8 * gpus;
    let strategy = Strategy::ALL[number / GPUS.len() % 2];
    let capacity = Capacity { gpus, cpus, memory_mb: 8 * 1024 * cpus, disk_mb: 10 * 1024 * cpus };
    Allocation { capacity, strategy, ..ticket.clone() }
}
