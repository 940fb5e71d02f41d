//! Capacity that a project can allocate now.

use muster_ids::ProjectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Endpoint, shape};

pub use muster_model::allocation::AllocationShape;
pub use muster_model::node::Capacity;

/// A capacity query.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacityQuery {
    /// Shape; default: `gpu_slice`.
    pub shape: Option<AllocationShape>,
    /// GPUs; default: 0, as for an allocation.
    #[schema(minimum = 0, maximum = 64)]
    pub gpus: Option<i64>,
    /// Logical CPUs; default: 1.
    #[schema(minimum = 0, maximum = 4096)]
    pub cpus: Option<i64>,
    /// Memory in MiB; default: 1024.
    #[schema(minimum = 0, maximum = 67108864)]
    pub memory_mb: Option<i64>,
    /// Disk in MiB; default: 1024.
    #[schema(minimum = 0, maximum = 1073741824)]
    pub disk_mb: Option<i64>,
}

/// Number of nodes that could provide this many GPUs now, with the requested CPUs, memory and disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityByGpus {
    /// Number of GPUs.
    pub gpus: i64,
    /// Nodes that could provide them.
    pub nodes: i64,
    /// Of these, nodes that could provide them inside one NVLink island.
    pub in_one_island: i64,
}

/// Remaining quota; absent where there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct QuotaLeft {
    /// Allocations.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocations: Option<i64>,
    /// GPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpus: Option<i64>,
    /// Logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpus: Option<i64>,
    /// Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_mb: Option<i64>,
    /// Disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub disk_mb: Option<i64>,
}

/// Reason it does not fit now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityReason {
    /// The project's quota does not allow it.
    Quota,
    /// No node takes allocations.
    NoNode,
    /// No whole node is free.
    NoWholeNode,
    /// No node has enough GPUs free.
    Gpus,
    /// No node with enough GPUs has enough CPUs free.
    Cpus,
    /// No node with enough GPUs has enough memory free.
    MemoryMb,
    /// No node with enough GPUs has enough disk free.
    DiskMb,
    /// Each resource is free on some node, but never all on the same node.
    Apart,
}

/// The smallest change that would fit now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityNearest {
    /// The change in words.
    #[schema(example = "4 GPUs instead of 8")]
    pub change: String,
    /// Shape that would fit.
    pub shape: AllocationShape,
    /// Amounts that would fit.
    pub capacity: Capacity,
}

/// Capacity that a project can allocate now. Nothing is reserved: another request may claim it first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityReport {
    /// The requesting project.
    pub project_id: ProjectId,
    /// Requested shape.
    pub shape: AllocationShape,
    /// Requested capacity.
    pub capacity: Capacity,
    /// Whether it fits now: a node has room, and the quota allows it.
    pub fits_now: bool,
    /// Number of nodes that could take it now, regardless of the quota.
    pub nodes: i64,
    /// Largest amount of each resource that a single node could provide now in this shape; not necessarily the same node
    /// for each.
    pub largest: Capacity,
    /// Number of nodes that could provide one GPU, two, and so on.
    pub by_gpus: Vec<CapacityByGpus>,
    /// Number of queued allocations.
    pub waiting: i64,
    /// The project's remaining quota.
    pub quota_left: QuotaLeft,
    /// Reason it does not fit now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<CapacityReason>,
    /// Human-readable reason, with the short resource and the largest amount available.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// The smallest change that would fit now; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nearest: Option<CapacityNearest>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[Endpoint::read(
    "capacity_get",
    "/v1/projects/{project}/capacity",
    shape::<CapacityReport>(),
)
.needs("capacity.get")
.query(shape::<CapacityQuery>())
.summary("Show the capacity available to the project now")
.description(
    "Answers for one allocation, which is always on one node. A request that does not fit comes with the \
     reason and the smallest change that would fit.",
)];
