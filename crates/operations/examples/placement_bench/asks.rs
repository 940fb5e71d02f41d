//! What is asked for, and the rows in whose name it is claimed.

use muster_ids::World;
use muster_model::Labels;
use muster_model::allocation::{Allocation, AllocationShape, AllocationState};
use muster_model::node::Capacity;
use muster_model::placement::Strategy;
use muster_store::{Result, Store};

use crate::options::Options;

/// The sizes that are asked for in turn, each packed and spread; one in eight needs no GPU.
const GPUS: [i64; 8] = [1, 2, 1, 4, 0, 2, 8, 4];

/// An allocation that exists and holds nothing. It is claimed for again and again: what is measured is the placement, and
/// not the making of rows.
pub(crate) async fn ticket(store: &Store, world: &World, options: &Options) -> Result<Allocation> {
    let (id, now) = (world.id(), world.now());
    let ticket = Allocation {
        id,
        tenant_id: options.tenant,
        project_id: options.project,
        name: id.to_string(),
        labels: Labels::new(),
        shape: AllocationShape::GpuSlice,
        capacity: Capacity::default(),
        strategy: Strategy::Pack,
        state: AllocationState::Requested,
        node_id: None,
        node_name: None,
        incarnation: 0,
        held: Capacity::default(),
        reason: None,
        message: None,
        active_witness_id: None,
        wiped_witness_id: None,
        operation_id: None,
        wait_until: None,
        expires_at: None,
        protected: false,
        created_at: now,
        updated_at: now,
        version: 1,
    };
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
