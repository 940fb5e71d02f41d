//! Quotas.

use muster_ids::ProjectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Operation, shape};

/// What a project holds now, counted as it was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct QuotaUse {
    /// Allocations that live.
    pub allocations: i64,
    /// GPUs.
    pub gpus: i64,
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// Disk in MiB.
    pub disk_mb: i64,
}

/// What a project may hold at most, and what it holds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// Whose it is.
    pub project_id: ProjectId,
    /// Most allocations at once; no limit if absent, as with the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_allocations: Option<i64>,
    /// Most GPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_gpus: Option<i64>,
    /// Most logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_cpus: Option<i64>,
    /// Most memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_memory_mb: Option<i64>,
    /// Most disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_disk_mb: Option<i64>,
    /// What it holds now. It may be above a limit that was lowered: then it can only shrink.
    pub used: QuotaUse,
    /// For `If-Match`.
    pub version: i64,
}

/// A limit by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuotaLimit {
    /// `max_allocations`.
    Allocations,
    /// `max_gpus`.
    Gpus,
    /// `max_cpus`.
    Cpus,
    /// `max_memory_mb`.
    MemoryMb,
    /// `max_disk_mb`.
    DiskMb,
}

/// Limits to be set. What is not named stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaSet {
    /// Most allocations at once.
    #[schema(minimum = 0, maximum = 1000000)]
    pub max_allocations: Option<i64>,
    /// Most GPUs.
    #[schema(minimum = 0, maximum = 1000000)]
    pub max_gpus: Option<i64>,
    /// Most logical CPUs.
    #[schema(minimum = 0, maximum = 1000000000)]
    pub max_cpus: Option<i64>,
    /// Most memory in MiB.
    #[schema(minimum = 0, maximum = 1000000000000_i64)]
    pub max_memory_mb: Option<i64>,
    /// Most disk in MiB.
    #[schema(minimum = 0, maximum = 1000000000000_i64)]
    pub max_disk_mb: Option<i64>,
    /// Limits that are taken away.
    #[schema(max_items = 5)]
    pub unlimited: Option<Vec<QuotaLimit>>,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::read("quota_get", "/v1/projects/{project}/quota", shape::<Quota>())
        .needs("quota.get")
        .summary("Show what a project may hold, and what it holds"),
    Operation::update("quota_set", "/v1/projects/{project}/quota", shape::<QuotaSet>(), shape::<Quota>())
        .needs("quota.set")
        .summary("Limit what a project may hold")
        .description(
            "Sets the limits that are named and leaves the others. A limit below what the project holds takes nothing \
             away; it only keeps the project from growing.",
        ),
];
