//! Capacity available to a project. Individual nodes are never disclosed.

mod get;
mod outlook;
mod request;
mod shortage;
mod weigh;

pub use get::get;
pub(crate) use shortage::shortage;

pub(crate) use outlook::{PlannedAllocations, foresee, total};
pub(crate) use request::{ensure_possible, with_defaults};

use muster_api::capacity as api;
use muster_model::node::Capacity;

/// Converts amounts to the API type.
pub(crate) fn amounts(capacity: &Capacity) -> api::Capacity {
    let Capacity { gpus, cpus, memory_mb, disk_mb } = *capacity;
    api::Capacity { gpus, cpus, memory_mb, disk_mb }
}
