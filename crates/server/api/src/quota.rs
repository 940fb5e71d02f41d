//! Quotas.

use muster_ids::ProjectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Endpoint, shape};

/// Capacity a project holds now, as it was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct QuotaUse {
    /// Live allocations.
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

/// Limits of a project, and its usage.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// The project.
    pub project_id: ProjectId,
    /// Maximum number of allocations; absent: no limit, as for the other fields.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_allocations: Option<i64>,
    /// Maximum number of GPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_gpus: Option<i64>,
    /// Maximum number of logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_cpus: Option<i64>,
    /// Maximum memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_memory_mb: Option<i64>,
    /// Maximum disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_disk_mb: Option<i64>,
    /// Current usage. It may exceed a limit that was lowered; then it can only shrink.
    pub used: QuotaUse,
    /// Version for `If-Match`.
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

/// Limits to set. Omitted fields keep their value.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuotaSet {
    /// Maximum number of allocations.
    #[schema(minimum = 0, maximum = 1000000)]
    pub max_allocations: Option<i64>,
    /// Maximum number of GPUs.
    #[schema(minimum = 0, maximum = 1000000)]
    pub max_gpus: Option<i64>,
    /// Maximum number of logical CPUs.
    #[schema(minimum = 0, maximum = 1000000000)]
    pub max_cpus: Option<i64>,
    /// Maximum memory in MiB.
    #[schema(minimum = 0, maximum = 1000000000000_i64)]
    pub max_memory_mb: Option<i64>,
    /// Maximum disk in MiB.
    #[schema(minimum = 0, maximum = 1000000000000_i64)]
    pub max_disk_mb: Option<i64>,
    /// Limits to remove.
    #[schema(max_items = 5)]
    pub unlimited: Option<Vec<QuotaLimit>>,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("quota_get", "/v1/projects/{project}/quota", shape::<Quota>())
        .needs("quota.get")
        .summary("Show a project's quota and usage"),
    Endpoint::update("quota_set", "/v1/projects/{project}/quota", shape::<QuotaSet>(), shape::<Quota>())
        .needs("quota.set")
        .summary("Set a project's quota")
        .description(
            "Sets the given limits and leaves the others. A limit below the current usage removes nothing; \
             it only prevents growth.",
        ),
];
