//! Quotas: a project's limits and usage.

use muster_ids::{ProjectId, TenantId};
use muster_model::node::Capacity;
use muster_model::placement::Resource;

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    QUOTA_GET = both(
        "SELECT max_allocations, max_gpus, max_cpus, max_memory_mb, max_disk_mb, used_allocations, used_gpus, used_cpus,
                used_memory_mb, used_disk_mb, version FROM quotas WHERE project_id = $1");
    QUOTA_MAKE = both(
        "INSERT INTO quotas (project_id, used_allocations, used_gpus, used_cpus, used_memory_mb, used_disk_mb, version)
         VALUES ($1, 0, 0, 0, 0, 0, 1) ON CONFLICT DO NOTHING");
    QUOTA_SET = both(
        "UPDATE quotas SET max_allocations = $2, max_gpus = $3, max_cpus = $4, max_memory_mb = $5, max_disk_mb = $6,
            version = version + 1 WHERE project_id = $1 AND version = $7");
    // A limit applies only to increases: shrinking is always allowed, even above the limit.
    QUOTA_TAKE = both(
        "UPDATE quotas SET used_allocations = used_allocations + $2, used_gpus = used_gpus + $3, used_cpus = used_cpus + $4,
            used_memory_mb = used_memory_mb + $5, used_disk_mb = used_disk_mb + $6
         WHERE project_id = $1
            AND (max_allocations IS NULL OR $2 <= 0 OR used_allocations + $2 <= max_allocations)
            AND (max_gpus IS NULL OR $3 <= 0 OR used_gpus + $3 <= max_gpus)
            AND (max_cpus IS NULL OR $4 <= 0 OR used_cpus + $4 <= max_cpus)
            AND (max_memory_mb IS NULL OR $5 <= 0 OR used_memory_mb + $5 <= max_memory_mb)
            AND (max_disk_mb IS NULL OR $6 <= 0 OR used_disk_mb + $6 <= max_disk_mb)");
    QUOTA_DELETE_OF_TENANT = both(
        "DELETE FROM quotas WHERE project_id IN (SELECT id FROM projects WHERE tenant_id = $1)");
    QUOTA_DELETE_OF_PROJECT = both("DELETE FROM quotas WHERE project_id = $1");
}

/// A project's limits and usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Maximum allocations; absent means unlimited, as for the other limits.
    pub max_allocations: Option<i64>,
    /// Maximum GPUs.
    pub max_gpus: Option<i64>,
    /// Maximum CPUs.
    pub max_cpus: Option<i64>,
    /// Maximum memory.
    pub max_memory_mb: Option<i64>,
    /// Maximum disk.
    pub max_disk_mb: Option<i64>,
    /// Live allocations.
    pub used_allocations: i64,
    /// The resources promised to them.
    pub used: Capacity,
    /// For `If-Match`; 0 if there is no row yet.
    pub version: i64,
}

impl Quota {
    /// Describes the first limit that such an increase would exceed; `None` if all of it is allowed. Applies the same rule
    /// as `QUOTA_TAKE`: a limit applies only to increases.
    pub fn excess(&self, allocations: i64, amount: &Capacity) -> Option<String> {
        let words = |count: i64| format!("{count} {}", if count == 1 { "allocation" } else { "allocations" });
        let over = |limit: Option<i64>, used: i64, asked: i64| {
            limit.filter(|limit| asked > 0 && used.saturating_add(asked) > *limit)
        };
        if let Some(limit) = over(self.max_allocations, self.used_allocations, allocations) {
            let (limit, used) = (words(limit), self.used_allocations);
            return Some(format!(
                "the project's quota allows {limit}: {used} used, {allocations} more requested"
            ));
        }
        let limit_of = |resource: Resource| match resource {
            Resource::Gpus => self.max_gpus,
            Resource::Cpus => self.max_cpus,
            Resource::MemoryMb => self.max_memory_mb,
            Resource::DiskMb => self.max_disk_mb,
        };
        Resource::ALL.into_iter().find_map(|resource| {
            let (used, asked) = (resource.amount(&self.used), resource.amount(amount));
            let limit = resource.words(over(limit_of(resource), used, asked)?);
            Some(format!("the project's quota allows {limit}: {used} used, {asked} more requested"))
        })
    }
}

impl Store {
    /// Returns a project's limits and usage.
    pub async fn quota_lookup(&self, project: ProjectId) -> Result<Quota> {
        self.fetch_optional(&QUOTA_GET, args![project]).await?.map_or(Ok(Quota::default()), |row| quota(&row))
    }
}

fn quota(row: &Row) -> Result<Quota> {
    Ok(Quota {
        max_allocations: row.get(0)?,
        max_gpus: row.get(1)?,
        max_cpus: row.get(2)?,
        max_memory_mb: row.get(3)?,
        max_disk_mb: row.get(4)?,
        used_allocations: row.get(5)?,
        used: Capacity { gpus: row.get(6)?, cpus: row.get(7)?, memory_mb: row.get(8)?, disk_mb: row.get(9)? },
        version: row.get(10)?,
    })
}

impl Tx {
    /// Sets the limits; `quota.version` is the version the caller read.
    pub async fn quota_set(&mut self, project: ProjectId, quota: &Quota) -> Result<()> {
        self.execute(&QUOTA_MAKE, args![project]).await?;
        let args = args![
            project,
            quota.max_allocations,
            quota.max_gpus,
            quota.max_cpus,
            quota.max_memory_mb,
            quota.max_disk_mb,
            quota.version.max(1)
        ];
        self.execute_one(&QUOTA_SET, args, StoreError::Stale).await
    }

    /// Charges a quota, or refunds it with negative amounts. Returns `false` if a limit does not allow it.
    pub async fn quota_take(
        &mut self,
        project: ProjectId,
        allocations: i64,
        amount: Capacity,
    ) -> Result<bool> {
        self.execute(&QUOTA_MAKE, args![project]).await?;
        let args = args![project, allocations, amount.gpus, amount.cpus, amount.memory_mb, amount.disk_mb];
        Ok(self.execute(&QUOTA_TAKE, args).await? == 1)
    }

    /// Explains which limit made `quota_take` refuse.
    pub async fn quota_excess(
        &mut self,
        project: ProjectId,
        allocations: i64,
        amount: &Capacity,
    ) -> Result<String> {
        let rows = self.fetch_all(&QUOTA_GET, args![project]).await?;
        let quota = rows.first().map_or(Ok(Quota::default()), quota)?;
        let excess = quota.excess(allocations, amount);
        Ok(excess.unwrap_or_else(|| "the project's quota did not allow it at this moment".to_owned()))
    }

    /// Deletes the limits of a project that is being removed.
    pub async fn quota_delete_of_project(&mut self, project: ProjectId) -> Result<()> {
        self.execute(&QUOTA_DELETE_OF_PROJECT, args![project]).await.map(drop)
    }

    /// Deletes the limits of all projects of a tenant that is being removed.
    pub async fn quota_delete_of_tenant(&mut self, tenant: TenantId) -> Result<()> {
        self.execute(&QUOTA_DELETE_OF_TENANT, args![tenant]).await.map(drop)
    }
}
