//! Allocations and their phases.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, ProjectId, TenantId};
use muster_model::LabelSelector;
use muster_model::allocation::{Allocation, AllocationShape, AllocationState, FailureReason, Phase};
use muster_model::node::Capacity;
use muster_model::placement::Strategy;

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, name, labels, shape, gpus, cpus, memory_mb, disk_mb, strategy, state, node_id,
         (SELECT n.name FROM nodes n WHERE n.id = allocations.node_id), incarnation, held_gpus, held_cpus, held_memory_mb,
         held_disk_mb, reason, message, active_witness_id, wiped_witness_id, operation_id, wait_until, expires_at, protected,
         created_at, updated_at, version"
    };
}

statements! {
    ALLOCATION_REQUEST = both(
        "INSERT INTO allocations (id, tenant_id, project_id, name, labels, shape, gpus, cpus, memory_mb, disk_mb, strategy,
            state, incarnation, held_gpus, held_cpus, held_memory_mb, held_disk_mb, operation_id, wait_until, expires_at,
            protected, created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 0, 0, 0, 0, 0, $13, $14, $15, $16, $17, $17, 1)");
    ALLOCATION_GET = both(concat!("SELECT ", columns!(), " FROM allocations WHERE id = $1"));
    ALLOCATION_BY_NAME = both(concat!("SELECT ", columns!(), " FROM allocations WHERE project_id = $1 AND name = $2
         AND state NOT IN ('released', 'failed')"));
    // $1 after, $2 limit, $3 and $4 labels, $5 project or null, $6 state or null, $7 node or null.
    ALLOCATION_LIST = pair(
        concat!("SELECT ", columns!(), " FROM allocations WHERE id > $1 AND ($5::uuid IS NULL OR project_id = $5)
            AND ($6::text IS NULL OR state = $6) AND ($7::uuid IS NULL OR node_id = $7) AND ",
            labels_match!(pg "$3" "$4"), " ORDER BY id LIMIT $2"),
        concat!("SELECT ", columns!(), " FROM allocations WHERE id > $1 AND ($5 IS NULL OR project_id = $5)
            AND ($6 IS NULL OR state = $6) AND ($7 IS NULL OR node_id = $7) AND ",
            labels_match!(sqlite "$3" "$4"), " ORDER BY id LIMIT $2"));
    ALLOCATION_LIVE_ON = both(concat!("SELECT ", columns!(), " FROM allocations WHERE node_id = $1
         AND state NOT IN ('released', 'failed') ORDER BY id"));
    ALLOCATION_LIVE_OF_PROJECT = both("SELECT COUNT(*) FROM allocations WHERE project_id = $1
         AND state NOT IN ('released', 'failed')");
    // Used by the engine: every column that a step can change, conditional on the version it read.
    ALLOCATION_MOVE = both(
        "UPDATE allocations SET state = $2, node_id = $3, incarnation = $4, held_gpus = $5, held_cpus = $6,
            held_memory_mb = $7, held_disk_mb = $8, reason = $9, message = $10, active_witness_id = $11,
            wiped_witness_id = $12, operation_id = $13, gpus = $14, cpus = $15, memory_mb = $16, disk_mb = $17,
            updated_at = $18, version = version + 1
         WHERE id = $1 AND version = $19");
    // Used by people: no column that the engine decides on.
    ALLOCATION_UPDATE = both(
        "UPDATE allocations SET labels = $2, expires_at = $3, protected = $4, updated_at = $5, version = version + 1,
            expiry_warnings = CASE WHEN expires_at IS NOT DISTINCT FROM $3 THEN expiry_warnings ELSE 0 END
         WHERE id = $1 AND version = $6");
    // $1 now, $2 and $3 the latest expiry for which the first and the last warning are due.
    ALLOCATION_EXPIRING = both(
        "SELECT id, expires_at FROM allocations WHERE state = 'active' AND expires_at > $1
            AND ((expiry_warnings < 1 AND expires_at <= $2) OR (expiry_warnings < 2 AND expires_at <= $3))
         ORDER BY expires_at LIMIT 100");
    ALLOCATION_WARNED = both(
        "UPDATE allocations SET expiry_warnings = $2 WHERE id = $1 AND state = 'active' AND expires_at = $3
            AND expiry_warnings < $2");
    ALLOCATION_EXPIRED = both(
        "SELECT id FROM allocations WHERE state = 'active' AND expires_at <= $1 ORDER BY expires_at LIMIT 100");
    // An earlier request that is no larger goes first: any capacity that fits the later one fits it too.
    QUEUE_POSITION = both(
        "SELECT COUNT(*) FROM allocations WHERE state = 'placing' AND id < $1");
    QUEUE_YIELD = both(
        "SELECT id FROM allocations WHERE state = 'placing' AND id < $1 AND gpus <= $2 AND cpus <= $3 AND memory_mb <= $4
            AND disk_mb <= $5 AND (shape = 'gpu_slice' OR $6 = 'baremetal') ORDER BY id LIMIT 1");
    PHASE_INSERT_NEXT = both(
        "INSERT INTO allocation_phases (allocation_id, sequence, state, operation_id, reason, at)
         SELECT $1, COALESCE((SELECT MAX(sequence) FROM allocation_phases WHERE allocation_id = $1), 0) + 1, $2, $3, $4, $5");
    PHASE_LIST = both(
        "SELECT state, operation_id, reason, at FROM allocation_phases WHERE allocation_id = $1 ORDER BY sequence");
    CLAIM_DELETE_OF_PROJECT = both(
        "DELETE FROM claims WHERE allocation_id IN (
            SELECT id FROM allocations WHERE project_id = $1 AND state IN ('released', 'failed'))");
    PHASE_DELETE_OF_PROJECT = both(
        "DELETE FROM allocation_phases WHERE allocation_id IN (
            SELECT id FROM allocations WHERE project_id = $1 AND state IN ('released', 'failed'))");
    // Live allocations stay, and then the project cannot be removed: the foreign key enforces it under concurrency.
    ALLOCATION_DELETE_OF_PROJECT = both(
        "DELETE FROM allocations WHERE project_id = $1 AND state IN ('released', 'failed')");
    ALLOCATION_LIVE_OF_TENANT = both("SELECT COUNT(*) FROM allocations WHERE tenant_id = $1
         AND state NOT IN ('released', 'failed')");
    CLAIM_DELETE_OF_TENANT = both(
        "DELETE FROM claims WHERE allocation_id IN (
            SELECT id FROM allocations WHERE tenant_id = $1 AND state IN ('released', 'failed'))");
    PHASE_DELETE_OF_TENANT = both(
        "DELETE FROM allocation_phases WHERE allocation_id IN (
            SELECT id FROM allocations WHERE tenant_id = $1 AND state IN ('released', 'failed'))");
    ALLOCATION_DELETE_OF_TENANT = both(
        "DELETE FROM allocations WHERE tenant_id = $1 AND state IN ('released', 'failed')");
}

fn allocation(row: &Row) -> Result<Allocation> {
    let capacity = |from: usize| -> Result<Capacity> {
        Ok(Capacity {
            gpus: row.get(from)?,
            cpus: row.get(from + 1)?,
            memory_mb: row.get(from + 2)?,
            disk_mb: row.get(from + 3)?,
        })
    };
    Ok(Allocation {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        name: row.get(3)?,
        labels: row.get(4)?,
        shape: AllocationShape::parse(&row.get::<String>(5)?).ok_or(StoreError::Corrupt("a shape"))?,
        capacity: capacity(6)?,
        strategy: Strategy::parse(&row.get::<String>(10)?).ok_or(StoreError::Corrupt("a strategy"))?,
        state: AllocationState::parse(&row.get::<String>(11)?)
            .ok_or(StoreError::Corrupt("a state of an allocation"))?,
        node_id: row.get(12)?,
        node_name: row.get(13)?,
        incarnation: row.get(14)?,
        held: capacity(15)?,
        reason: row.get::<Option<String>>(19)?.and_then(|reason| FailureReason::parse(&reason)),
        message: row.get(20)?,
        active_witness_id: row.get(21)?,
        wiped_witness_id: row.get(22)?,
        operation_id: row.get(23)?,
        wait_until: row.get(24)?,
        expires_at: row.get(25)?,
        protected: row.get(26)?,
        created_at: row.get(27)?,
        updated_at: row.get(28)?,
        version: row.get(29)?,
    })
}

/// Filter for lists of allocations.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllocationFilter {
    /// Only allocations of this project.
    pub project: Option<ProjectId>,
    /// Only allocations in this state.
    pub state: Option<AllocationState>,
    /// Only allocations on this node.
    pub node: Option<NodeId>,
}

impl Store {
    /// Returns the allocation with this id.
    pub async fn allocation_lookup(&self, id: AllocationId) -> Result<Option<Allocation>> {
        self.fetch_optional(&ALLOCATION_GET, args![id]).await?.as_ref().map(allocation).transpose()
    }

    /// Returns the live allocation of this name.
    pub async fn allocation_by_name(&self, project: ProjectId, name: &str) -> Result<Option<Allocation>> {
        let row = self.fetch_optional(&ALLOCATION_BY_NAME, args![project, name]).await?;
        row.as_ref().map(allocation).transpose()
    }

    /// Returns allocations in creation order.
    pub async fn allocation_list(
        &self,
        page: Page,
        labels: &LabelSelector,
        filter: AllocationFilter,
    ) -> Result<Vec<Allocation>> {
        let args = args![
            page.after,
            page.size,
            labels.equal_json(),
            labels.not_equal_json(),
            filter.project,
            filter.state.map(AllocationState::as_str),
            filter.node
        ];
        self.fetch_all(&ALLOCATION_LIST, args).await?.iter().map(allocation).collect()
    }

    /// Returns the live allocations on a node.
    pub async fn allocation_live_on(&self, node: NodeId) -> Result<Vec<Allocation>> {
        self.fetch_all(&ALLOCATION_LIVE_ON, args![node]).await?.iter().map(allocation).collect()
    }

    /// Returns allocations that have expired.
    pub async fn allocation_expired(&self, now: Timestamp) -> Result<Vec<AllocationId>> {
        self.fetch_all(&ALLOCATION_EXPIRED, args![now]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Returns allocations with a due expiry warning: those that expire by `first` and had none, and those that expire by
    /// `last` and had at most one.
    pub async fn allocation_expiring(
        &self,
        now: Timestamp,
        first: Timestamp,
        last: Timestamp,
    ) -> Result<Vec<(AllocationId, Timestamp)>> {
        let rows = self.fetch_all(&ALLOCATION_EXPIRING, args![now, first, last]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
    }

    /// Returns an allocation's queue position: the number of allocations before it.
    pub async fn queue_position(&self, id: AllocationId) -> Result<i64> {
        self.fetch_optional(&QUEUE_POSITION, args![id]).await?.map_or(Ok(0), |row| row.get(0))
    }

    /// Returns an earlier queued allocation that is no larger, which goes first.
    pub async fn queue_yield_to(&self, allocation: &Allocation) -> Result<Option<AllocationId>> {
        let need = allocation.capacity;
        let args = args![
            allocation.id,
            need.gpus,
            need.cpus,
            need.memory_mb,
            need.disk_mb,
            allocation.shape.as_str()
        ];
        self.fetch_optional(&QUEUE_YIELD, args).await?.map(|row| row.get(0)).transpose()
    }

    /// Returns the phases of an allocation, oldest first.
    pub async fn phase_list(&self, id: AllocationId) -> Result<Vec<Phase>> {
        let rows = self.fetch_all(&PHASE_LIST, args![id]).await?;
        rows.iter()
            .map(|row| {
                Ok(Phase {
                    state: AllocationState::parse(&row.get::<String>(0)?)
                        .ok_or(StoreError::Corrupt("a state of an allocation"))?,
                    operation_id: row.get(1)?,
                    reason: row.get(2)?,
                    at: row.get(3)?,
                })
            })
            .collect()
    }
}

impl Tx {
    /// Returns the allocation with this id, as read by this transaction.
    pub async fn allocation_now(&mut self, id: AllocationId) -> Result<Option<Allocation>> {
        self.fetch_all(&ALLOCATION_GET, args![id]).await?.first().map(allocation).transpose()
    }

    /// Stores a new allocation.
    pub async fn allocation_request(&mut self, allocation: &Allocation) -> Result<()> {
        let args = args![
            allocation.id,
            allocation.tenant_id,
            allocation.project_id,
            &allocation.name,
            &allocation.labels,
            allocation.shape.as_str(),
            allocation.capacity.gpus,
            allocation.capacity.cpus,
            allocation.capacity.memory_mb,
            allocation.capacity.disk_mb,
            allocation.strategy.as_str(),
            allocation.state.as_str(),
            allocation.operation_id,
            allocation.wait_until,
            allocation.expires_at,
            allocation.protected,
            allocation.created_at
        ];
        self.execute(&ALLOCATION_REQUEST, args).await?;
        self.phase_insert(allocation, None, allocation.created_at).await
    }

    /// Updates an allocation, and adds a phase if its state changed. `before` is the row that the step read; returns `Stale`
    /// if it changed since.
    pub async fn allocation_move(
        &mut self,
        before: &Allocation,
        after: &Allocation,
        at: Timestamp,
    ) -> Result<()> {
        if !before.state.can_become(after.state) {
            return Err(StoreError::Conflict(format!(
                "an allocation that is {} cannot become {}",
                before.state, after.state
            )));
        }
        let args = args![
            after.id,
            after.state.as_str(),
            after.node_id,
            after.incarnation,
            after.held.gpus,
            after.held.cpus,
            after.held.memory_mb,
            after.held.disk_mb,
            after.reason.map(FailureReason::as_str),
            after.message.as_deref(),
            after.active_witness_id,
            after.wiped_witness_id,
            after.operation_id,
            after.capacity.gpus,
            after.capacity.cpus,
            after.capacity.memory_mb,
            after.capacity.disk_mb,
            at,
            before.version
        ];
        self.execute_one(&ALLOCATION_MOVE, args, StoreError::Stale).await?;
        if before.state == after.state {
            return Ok(());
        }
        self.phase_insert(after, after.reason.map(FailureReason::as_str), at).await
    }

    async fn phase_insert(
        &mut self,
        allocation: &Allocation,
        reason: Option<&str>,
        at: Timestamp,
    ) -> Result<()> {
        let args = args![allocation.id, allocation.state.as_str(), allocation.operation_id, reason, at];
        self.execute(&PHASE_INSERT_NEXT, args).await.map(drop)
    }

    /// Updates the columns that its owner decides on; `allocation.version` is already the new one.
    pub async fn allocation_update(&mut self, allocation: &Allocation) -> Result<()> {
        let args = args![
            allocation.id,
            &allocation.labels,
            allocation.expires_at,
            allocation.protected,
            allocation.updated_at,
            allocation.version - 1
        ];
        self.execute_one(&ALLOCATION_UPDATE, args, StoreError::Stale).await
    }

    /// Records the number of expiry warnings sent; returns `Stale` if it is already recorded or the expiry has changed.
    pub async fn allocation_warned(
        &mut self,
        id: AllocationId,
        warnings: i64,
        expires_at: Timestamp,
    ) -> Result<()> {
        self.execute_one(&ALLOCATION_WARNED, args![id, warnings, expires_at], StoreError::Stale).await
    }

    /// Counts the live allocations of a project.
    pub async fn allocation_live_of_project(&mut self, project: ProjectId) -> Result<i64> {
        let rows = self.fetch_all(&ALLOCATION_LIVE_OF_PROJECT, args![project]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Removes the history of a project's allocations and returns how many there were. None may be live.
    pub async fn allocation_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&CLAIM_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&PHASE_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&ALLOCATION_DELETE_OF_PROJECT, args![project]).await
    }

    /// Counts the live allocations of a tenant's projects.
    pub async fn allocation_live_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        let rows = self.fetch_all(&ALLOCATION_LIVE_OF_TENANT, args![tenant]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Removes the history of the allocations of all projects of a tenant and returns how many there were. None may be live.
    pub async fn allocation_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&CLAIM_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&PHASE_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&ALLOCATION_DELETE_OF_TENANT, args![tenant]).await
    }
}
