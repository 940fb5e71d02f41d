//! Capacity: what a project can get now.

use muster_ids::ProjectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Operation, shape};

/// An amount of each thing that a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// GPUs.
    pub gpus: i64,
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// Disk in MiB.
    pub disk_mb: i64,
}

/// What kind of place an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AllocationShape {
    /// A whole node, alone.
    Baremetal,
    /// Some GPUs of one node.
    GpuSlice,
}

/// What is asked about.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacityQuery {
    /// What kind of place; a slice of a node if not given.
    pub shape: Option<AllocationShape>,
    /// How many GPUs; none if not given, as in a request for an allocation.
    #[schema(minimum = 0, maximum = 64)]
    pub gpus: Option<i64>,
    /// How many logical CPUs; 1 if not given.
    #[schema(minimum = 0, maximum = 4096)]
    pub cpus: Option<i64>,
    /// How much memory in MiB; 1024 if not given.
    #[schema(minimum = 0, maximum = 67108864)]
    pub memory_mb: Option<i64>,
    /// How much disk in MiB; 1024 if not given.
    #[schema(minimum = 0, maximum = 1073741824)]
    pub disk_mb: Option<i64>,
}

/// How many nodes could give so many GPUs now, with the CPUs, memory and disk asked for beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityByGpus {
    /// So many GPUs.
    pub gpus: i64,
    /// Nodes that could give them.
    pub nodes: i64,
    /// Those of them that could give them inside one NVLink island.
    pub in_one_island: i64,
}

/// What a quota leaves; absent where there is no limit.
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

/// Why it cannot be had now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityReason {
    /// The project's quota does not allow it.
    Quota,
    /// No node takes allocations.
    NoNode,
    /// No node is free as a whole.
    NoWholeNode,
    /// No node has so many GPUs free.
    Gpus,
    /// No node with enough GPUs has so many CPUs free.
    Cpus,
    /// No node with enough GPUs has so much memory free.
    MemoryMb,
    /// No node with enough GPUs has so much disk free.
    DiskMb,
    /// Each resource is free on some node, but not all of them on one.
    Apart,
}

/// The smallest change that would fit now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityNearest {
    /// The change in words.
    #[schema(example = "4 GPUs instead of 8")]
    pub change: String,
    /// The kind of place that would fit.
    pub shape: AllocationShape,
    /// The amounts that would fit.
    pub capacity: Capacity,
}

/// What a project can get now. It holds nothing back for anybody: somebody else may be faster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityReport {
    /// The project that asked.
    pub project_id: ProjectId,
    /// What kind of place it asked about.
    pub shape: AllocationShape,
    /// What it asked about.
    pub capacity: Capacity,
    /// Whether it could be had now: there is a node for it, and the quota allows it.
    pub fits_now: bool,
    /// How many nodes could take it now, whatever the quota says.
    pub nodes: i64,
    /// The most of each thing that one node could give now in this shape; not necessarily the same node for each.
    pub largest: Capacity,
    /// How many nodes could give one GPU, two, and so on.
    pub by_gpus: Vec<CapacityByGpus>,
    /// How many allocations wait in line.
    pub waiting: i64,
    /// What the project's quota leaves.
    pub quota_left: QuotaLeft,
    /// Why it cannot be had now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<CapacityReason>,
    /// The same in a sentence, with the resource that is short and the most of it there is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// The smallest change that would fit now; absent where nothing would.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub nearest: Option<CapacityNearest>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[Operation::read(
    "capacity_get",
    "/v1/projects/{project}/capacity",
    shape::<CapacityReport>(),
)
.needs("capacity.get")
.query(shape::<CapacityQuery>())
.summary("Show what the project can get now")
.description(
    "Answers for one allocation, which is always on one node. What does not fit comes with the reason and the smallest \
     change that would fit.",
)];
