//! Quotas: a project's limits and usage.

mod get;
mod set;

pub use get::get;
pub use set::set;

use muster_api::quota as api;
use muster_db::Quota;
use muster_ids::ProjectId;

fn view(project_id: ProjectId, quota: &Quota) -> api::Quota {
    api::Quota {
        project_id,
        max_allocations: quota.max_allocations,
        max_gpus: quota.max_gpus,
        max_cpus: quota.max_cpus,
        max_memory_mb: quota.max_memory_mb,
        max_disk_mb: quota.max_disk_mb,
        used: api::QuotaUse {
            allocations: quota.used_allocations,
            gpus: quota.used.gpus,
            cpus: quota.used.cpus,
            memory_mb: quota.used.memory_mb,
            disk_mb: quota.used.disk_mb,
        },
        version: version(quota),
    }
}

/// Returns the version. A project has a quota before its row exists; the row starts as version 1, so the caller is given
/// that version.
fn version(quota: &Quota) -> i64 {
    quota.version.max(1)
}
