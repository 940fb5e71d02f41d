//! Members of instances.

use std::collections::BTreeSet;

use jiff::Timestamp;
use muster_ids::{AllocationId, InstanceId, MemberId, NodeId, ProjectId, TypedId as _};
use muster_model::assess::{AdapterReport, Assessment, CellObservation, HealthReason};
use muster_model::instance::Health;
use muster_model::member::{Member, MemberFailure, MemberState};
use serde_json::Value as Json;
use uuid::Uuid;

use crate::sql::{Row, args, both, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, instance_id, component_key, name, state, health, health_message, health_incarnation,
         free_at, allocation_id, allocation_made, bound_capacity_shape, cell_id, incarnation, app_version_id, adapter_detail,
         failure_reason, message, fenced, active_witness_id, drained_witness_id, removed_witness_id, operation_id,
         correlation_id, created_at, updated_at, version, health_reason, health_since"
    };
}

statements! {
    MEMBER_REQUEST = both(concat!("INSERT INTO members (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, 0, NULL, $9, $10, $11, NULL, 0, NULL, $12, NULL, NULL, $13, NULL, NULL,
                 NULL, $14, $15, $16, $16, 1, NULL, NULL)"));
    MEMBER_GET = both(concat!("SELECT ", columns!(), " FROM members WHERE id = $1"));
    MEMBER_BY_NAME = both(concat!("SELECT ", columns!(), " FROM members WHERE instance_id = $1 AND name = $2
         ORDER BY CASE WHEN state = 'removed' THEN 1 ELSE 0 END, id DESC LIMIT 1"));
    #[cfg(feature = "test-api")]
    MEMBER_BY_CELL = both(concat!("SELECT ", columns!(), " FROM members WHERE cell_id = $1"));
    // $1 after, $2 limit, $3 instance, $4 component or null, $5 state or null for all that are not removed.
    MEMBER_LIST = pair(
        concat!("SELECT ", columns!(), " FROM members WHERE id > $1 AND instance_id = $3
            AND ($4::text IS NULL OR component_key = $4) AND ((($5::text IS NULL) AND state <> 'removed') OR state = $5)
            ORDER BY id LIMIT $2"),
        concat!("SELECT ", columns!(), " FROM members WHERE id > $1 AND instance_id = $3
            AND ($4 IS NULL OR component_key = $4) AND ((($5 IS NULL) AND state <> 'removed') OR state = $5)
            ORDER BY id LIMIT $2"));
    MEMBER_LIVING = both(concat!("SELECT ", columns!(), " FROM members WHERE instance_id = $1 AND state <> 'removed' ORDER BY id"));
    // Any other state, including failed and removed.
    MEMBER_NOT_ACTIVE = both(
        "SELECT name, state FROM members WHERE instance_id = $1 AND component_key = $2 AND state <> 'active' ORDER BY id LIMIT 1");
    MEMBER_IN = both(concat!("SELECT ", columns!(), " FROM members WHERE allocation_id = $1 AND state <> 'removed' ORDER BY id"));
    MEMBER_ON = both(concat!("SELECT ", columns!(), " FROM members WHERE state <> 'removed' AND allocation_id IN (
            SELECT id FROM allocations WHERE node_id = $1 AND state NOT IN ('released', 'failed')) ORDER BY id"));
    // Health of another incarnation does not count.
    MEMBER_COUNT = both("SELECT component_key, state, said, COUNT(*) FROM (
            SELECT component_key, state, CASE WHEN health_incarnation = incarnation THEN health ELSE 'unknown' END AS said
            FROM members WHERE instance_id = $1 AND state <> 'removed') AS living
         GROUP BY component_key, state, said ORDER BY component_key, state, said");
    MEMBER_COUNT_BETWEEN = both("SELECT component_key, state, said, COUNT(*), instance_id FROM (
            SELECT instance_id, component_key, state,
                CASE WHEN health_incarnation = incarnation THEN health ELSE 'unknown' END AS said
            FROM members WHERE state <> 'removed'
              AND instance_id IN (SELECT id FROM instances WHERE project_id = $1 AND id >= $2 AND id <= $3)) AS living
         GROUP BY instance_id, component_key, state, said ORDER BY component_key, state, said");
    MEMBER_PLACES = both(
        "SELECT m.id, c.host, n.id, n.address, n.unreachable_since, a.gpus, a.cpus, a.memory_mb, n.name, h.observed_at, m.incarnation,
            o.incarnation, o.alive, o.services, o.message, o.boot_id, o.since, o.observed_at, r.incarnation, r.health, r.message, w.at
         FROM members m LEFT JOIN cells c ON c.id = m.cell_id AND c.state NOT IN ('destroyed', 'failed')
            LEFT JOIN allocations a ON a.id = m.allocation_id LEFT JOIN nodes n ON n.id = a.node_id
            LEFT JOIN node_heartbeats h ON h.node_id = n.id LEFT JOIN cell_observations o ON o.cell_id = c.id
            LEFT JOIN member_reports r ON r.member_id = m.id LEFT JOIN witnesses w ON w.id = m.active_witness_id
         WHERE m.instance_id = $1 AND m.state <> 'removed' AND m.id >= $2 AND m.id <= $3 ORDER BY m.id");
    MEMBER_ATTESTED = both("SELECT w.actor_id FROM members m JOIN witnesses w ON w.id = m.removed_witness_id
         WHERE m.instance_id = $1 AND w.kind = 'attested' ORDER BY w.at LIMIT 1");
    // Every column that can change, conditional on the version the caller read. `free_at` belongs to one incarnation and is
    // set only by its adapter.
    MEMBER_MOVE = both(
        "UPDATE members SET state = $2, health = $3, health_message = $4, health_incarnation = $5, allocation_id = $6,
            allocation_made = $7, bound_capacity_shape = $8, cell_id = $9, incarnation = $10, app_version_id = $11,
            adapter_detail = $12, failure_reason = $13, message = $14, fenced = $15, active_witness_id = $16,
            drained_witness_id = $17, removed_witness_id = $18, operation_id = $19, correlation_id = $20, updated_at = $21,
            free_at = CASE WHEN incarnation = $10 THEN free_at ELSE NULL END, health_reason = $23, health_since = $24,
            version = version + 1
         WHERE id = $1 AND version = $22");
    // Health belongs to one incarnation. The row is updated only if something changed.
    MEMBER_HEALTH = both(
        "UPDATE members SET health = $3, health_message = $4, health_incarnation = $2, health_reason = $6, health_since = $7,
            updated_at = $5, version = version + 1
         WHERE id = $1 AND incarnation = $2 AND state <> 'removed'
            AND (health <> $3 OR health_incarnation <> $2 OR COALESCE(health_message, '') <> COALESCE($4, '')
                 OR COALESCE(health_reason, '') <> COALESCE($6, ''))");
    // Keyed by the start of the unhealthy period, so that it needs no reset.
    MEMBER_REPAIR_UNANNOUNCED = both(
        "SELECT id FROM members WHERE instance_id = $1 AND state <> 'removed'
            AND (repair_announced_for IS NULL OR repair_announced_for <> COALESCE(health_since, created_at))");
    MEMBER_REPAIR_ANNOUNCED = both(
        "UPDATE members SET repair_announced_for = COALESCE(health_since, created_at) WHERE id = $1");
    // Transient and independent of all other changes of the row, so the version stays.
    MEMBER_FREE = both("UPDATE members SET free_at = $3 WHERE id = $1 AND incarnation = $2 AND state <> 'removed'");
    MEMBER_DETAIL = pair(
        "UPDATE members SET adapter_detail = $3, updated_at = $4, version = version + 1
         WHERE id = $1 AND incarnation = $2 AND adapter_detail <> $3::jsonb",
        "UPDATE members SET adapter_detail = $3, updated_at = $4, version = version + 1
         WHERE id = $1 AND incarnation = $2 AND adapter_detail <> $3");
}

fn member(row: &Row) -> Result<Member> {
    let state = row.get::<String>(6)?;
    let health = row.get::<String>(7)?;
    Ok(Member {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        instance_id: row.get(3)?,
        component_key: row.get(4)?,
        name: row.get(5)?,
        state: MemberState::parse(&state).ok_or(StoreError::Corrupt("a state of a member"))?,
        health: Health::parse(&health).ok_or(StoreError::Corrupt("a health"))?,
        health_message: row.get(8)?,
        health_incarnation: row.get(9)?,
        free_at: row.get(10)?,
        allocation_id: row.get(11)?,
        allocation_made: row.get(12)?,
        bound_capacity_shape: row.get(13)?,
        cell_id: row.get(14)?,
        incarnation: row.get(15)?,
        app_version_id: row.get(16)?,
        adapter_detail: row.get(17)?,
        failure_reason: row.get::<Option<String>>(18)?.and_then(|reason| MemberFailure::parse(&reason)),
        message: row.get(19)?,
        fenced: row.get(20)?,
        active_witness_id: row.get(21)?,
        drained_witness_id: row.get(22)?,
        removed_witness_id: row.get(23)?,
        operation_id: row.get(24)?,
        correlation_id: row.get(25)?,
        created_at: row.get(26)?,
        updated_at: row.get(27)?,
        version: row.get(28)?,
        health_reason: row.get::<Option<String>>(29)?.and_then(|reason| HealthReason::parse(&reason)),
        health_since: row.get(30)?,
    })
}

/// Filter for lists of members.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemberFilter<'a> {
    /// Only members of this component.
    pub component: Option<&'a str>,
    /// Only members in this state; by default all that are not removed.
    pub state: Option<MemberState>,
}

/// The number of members of a component by state and health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberCount {
    /// The component.
    pub component_key: String,
    /// The state.
    pub state: MemberState,
    /// The health.
    pub health: Health,
    /// The number of members.
    pub count: i64,
}

/// The location of a member.
#[derive(Debug, Clone)]
pub struct MemberPlace {
    /// The member.
    pub member_id: MemberId,
    /// Host number of its cell within the network's subnet.
    pub host: Option<i64>,
    /// Its node.
    pub node_id: Option<NodeId>,
    /// The node's address, once known.
    pub node_address: Option<String>,
    /// Start of the time for which the node counts as unreachable.
    pub unreachable_since: Option<Timestamp>,
    /// Capacity of its allocation: GPUs, CPUs and memory in MiB.
    pub capacity: Option<(i64, i64, i64)>,
    /// The node's name.
    pub node_name: Option<String>,
    /// Time of the agent's latest confirmation of its cells' status.
    pub confirmed_at: Option<Timestamp>,
    /// The agent's report on its cell.
    pub cell: Option<CellObservation>,
    /// The adapter's report on it.
    pub report: Option<AdapterReport>,
    /// When it was last verified to be active.
    pub active_at: Option<Timestamp>,
    /// Since when its cell is dead in its present incarnation, as the node's agent reported.
    pub dead_since: Option<Timestamp>,
}

fn place(row: &Row) -> Result<MemberPlace> {
    let capacity = (row.get::<Option<i64>>(5)?, row.get::<Option<i64>>(6)?, row.get::<Option<i64>>(7)?);
    let incarnation = row.get::<i64>(10)?;
    let cell = crate::observation::observation(row, 11)?;
    let dead = cell.as_ref().filter(|cell| cell.incarnation == incarnation && !cell.alive);
    Ok(MemberPlace {
        dead_since: dead.map(|cell| cell.since),
        node_name: row.get(8)?,
        confirmed_at: row.get(9)?,
        report: crate::observation::report(row, 18)?,
        active_at: row.get(21)?,
        cell,
        member_id: row.get(0)?,
        host: row.get(1)?,
        node_id: row.get(2)?,
        node_address: row.get(3)?,
        unreachable_since: row.get(4)?,
        capacity: match capacity {
            (Some(gpus), Some(cpus), Some(memory_mb)) => Some((gpus, cpus, memory_mb)),
            _ => None,
        },
    })
}

fn count(row: &Row) -> Result<MemberCount> {
    let (state, health) = (row.get::<String>(1)?, row.get::<String>(2)?);
    Ok(MemberCount {
        component_key: row.get(0)?,
        state: MemberState::parse(&state).ok_or(StoreError::Corrupt("a state of a member"))?,
        health: Health::parse(&health).ok_or(StoreError::Corrupt("a health"))?,
        count: row.get(3)?,
    })
}

impl Store {
    /// Returns the member with this id.
    pub async fn member_lookup(&self, id: MemberId) -> Result<Option<Member>> {
        self.fetch_optional(&MEMBER_GET, args![id]).await?.as_ref().map(member).transpose()
    }

    /// Returns the member of this name in an instance: the live one, or else the latest.
    pub async fn member_by_name(&self, instance: InstanceId, name: &str) -> Result<Option<Member>> {
        self.fetch_optional(&MEMBER_BY_NAME, args![instance, name]).await?.as_ref().map(member).transpose()
    }

    /// Returns the member that a cell belongs to.
    #[cfg(feature = "test-api")]
    pub async fn member_by_cell(&self, cell: muster_ids::CellId) -> Result<Option<Member>> {
        self.fetch_optional(&MEMBER_BY_CELL, args![cell]).await?.as_ref().map(member).transpose()
    }

    /// Returns an instance's members in creation order.
    pub async fn member_list(
        &self,
        page: Page,
        instance: InstanceId,
        filter: MemberFilter<'_>,
    ) -> Result<Vec<Member>> {
        let args =
            args![page.after, page.size, instance, filter.component, filter.state.map(MemberState::as_str)];
        self.fetch_all(&MEMBER_LIST, args).await?.iter().map(member).collect()
    }

    /// Returns an instance's members that are not removed.
    pub async fn member_living(&self, instance: InstanceId) -> Result<Vec<Member>> {
        self.fetch_all(&MEMBER_LIVING, args![instance]).await?.iter().map(member).collect()
    }

    /// Returns name and state of the first member of a component that is not active, whatever its state.
    pub async fn member_not_active(
        &self,
        instance: InstanceId,
        key: &str,
    ) -> Result<Option<(String, String)>> {
        let row = self.fetch_optional(&MEMBER_NOT_ACTIVE, args![instance, key]).await?;
        row.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
    }

    /// Returns the members in an allocation.
    pub async fn member_in(&self, allocation: AllocationId) -> Result<Vec<Member>> {
        self.fetch_all(&MEMBER_IN, args![allocation]).await?.iter().map(member).collect()
    }

    /// Returns the members on a node.
    pub async fn member_on(&self, node: NodeId) -> Result<Vec<Member>> {
        self.fetch_all(&MEMBER_ON, args![node]).await?.iter().map(member).collect()
    }

    /// Returns the locations of all members of an instance that are not removed, in one read.
    pub async fn member_places(&self, instance: InstanceId) -> Result<Vec<MemberPlace>> {
        let all = (MemberId::from_uuid(Uuid::nil()), MemberId::from_uuid(Uuid::max()));
        self.member_places_between(instance, all).await
    }

    /// Does the same from one member id to another.
    pub async fn member_places_between(
        &self,
        instance: InstanceId,
        (first, last): (MemberId, MemberId),
    ) -> Result<Vec<MemberPlace>> {
        self.fetch_all(&MEMBER_PLACES, args![instance, first, last]).await?.iter().map(place).collect()
    }

    /// Returns the operator that attested the removal of a member of an instance, if there is one.
    pub async fn member_attested(&self, instance: InstanceId) -> Result<Option<String>> {
        self.fetch_optional(&MEMBER_ATTESTED, args![instance]).await?.map_or(Ok(None), |row| row.get(0))
    }

    /// Counts the members of each component by state and health, without removed ones.
    pub async fn member_count(&self, instance: InstanceId) -> Result<Vec<MemberCount>> {
        self.fetch_all(&MEMBER_COUNT, args![instance]).await?.iter().map(count).collect()
    }

    /// Does the same for a project's instances from one instance id to another.
    pub async fn member_count_between(
        &self,
        project: ProjectId,
        (first, last): (InstanceId, InstanceId),
    ) -> Result<Vec<(InstanceId, MemberCount)>> {
        let rows = self.fetch_all(&MEMBER_COUNT_BETWEEN, args![project, first, last]).await?;
        rows.iter().map(|row| Ok((row.get(4)?, count(row)?))).collect()
    }
}

impl Tx {
    /// Stores a new member. Returns `Conflict` if the name is taken.
    pub async fn member_request(&mut self, member: &Member) -> Result<()> {
        let args = args![
            member.id,
            member.tenant_id,
            member.project_id,
            member.instance_id,
            &member.component_key,
            &member.name,
            member.state.as_str(),
            member.health.as_str(),
            member.allocation_id,
            member.allocation_made,
            member.bound_capacity_shape.as_deref(),
            member.adapter_detail.clone(),
            member.fenced,
            member.operation_id,
            &member.correlation_id,
            member.created_at
        ];
        self.execute(&MEMBER_REQUEST, args).await.map(drop)
    }

    /// Returns the member with this id, as read by this transaction.
    pub async fn member_now(&mut self, id: MemberId) -> Result<Option<Member>> {
        self.fetch_all(&MEMBER_GET, args![id]).await?.first().map(member).transpose()
    }

    /// Returns the members of an instance that are not removed, as read by this transaction.
    pub async fn member_living_now(&mut self, instance: InstanceId) -> Result<Vec<Member>> {
        self.fetch_all(&MEMBER_LIVING, args![instance]).await?.iter().map(member).collect()
    }

    /// Returns the locations of all members of an instance that are not removed, as read by this transaction.
    pub async fn member_places_now(&mut self, instance: InstanceId) -> Result<Vec<MemberPlace>> {
        let args = args![instance, MemberId::from_uuid(Uuid::nil()), MemberId::from_uuid(Uuid::max())];
        self.fetch_all(&MEMBER_PLACES, args).await?.iter().map(place).collect()
    }

    /// Returns the members in an allocation, as read by this transaction.
    pub async fn member_in_now(&mut self, allocation: AllocationId) -> Result<Vec<Member>> {
        self.fetch_all(&MEMBER_IN, args![allocation]).await?.iter().map(member).collect()
    }

    /// Updates a member. `before` is the row the caller read; returns `Stale` if it changed since.
    pub async fn member_move(&mut self, before: &Member, after: &Member, at: Timestamp) -> Result<()> {
        if !before.state.can_become(after.state) {
            let message = format!("a member that is {} cannot become {}", before.state, after.state);
            return Err(StoreError::Conflict(message));
        }
        let args = args![
            after.id,
            after.state.as_str(),
            after.health.as_str(),
            after.health_message.as_deref(),
            after.health_incarnation,
            after.allocation_id,
            after.allocation_made,
            after.bound_capacity_shape.as_deref(),
            after.cell_id,
            after.incarnation,
            after.app_version_id,
            after.adapter_detail.clone(),
            after.failure_reason.map(MemberFailure::as_str),
            after.message.as_deref(),
            after.fenced,
            after.active_witness_id,
            after.drained_witness_id,
            after.removed_witness_id,
            after.operation_id,
            &after.correlation_id,
            at,
            before.version,
            after.health_reason.map(HealthReason::as_str),
            after.health_since
        ];
        self.execute_one(&MEMBER_MOVE, args, StoreError::Stale).await
    }

    /// Stores the health of an incarnation of a member; reports whether anything changed.
    pub async fn member_health(
        &mut self,
        id: MemberId,
        incarnation: i64,
        assessed: &Assessment,
        at: Timestamp,
    ) -> Result<bool> {
        let args = args![
            id,
            incarnation,
            assessed.health.as_str(),
            assessed.message.as_deref(),
            at,
            assessed.reason.map(HealthReason::as_str),
            assessed.since
        ];
        Ok(self.execute(&MEMBER_HEALTH, args).await? == 1)
    }

    /// Returns members of an instance without an announced repair for their current unhealthy period.
    pub async fn member_repair_unannounced(&mut self, instance: InstanceId) -> Result<BTreeSet<MemberId>> {
        self.fetch_all(&MEMBER_REPAIR_UNANNOUNCED, args![instance])
            .await?
            .iter()
            .map(|row| row.get(0))
            .collect()
    }

    /// Records that a member's repair was announced to its owner.
    pub async fn member_repair_announced(&mut self, id: MemberId) -> Result<()> {
        self.execute(&MEMBER_REPAIR_ANNOUNCED, args![id]).await.map(drop)
    }

    /// Records when an incarnation of a member is expected to be free, or that this is unknown.
    pub async fn member_free(
        &mut self,
        id: MemberId,
        incarnation: i64,
        free_at: Option<Timestamp>,
    ) -> Result<bool> {
        Ok(self.execute(&MEMBER_FREE, args![id, incarnation, free_at]).await? == 1)
    }

    /// Records an adapter's details about an incarnation of a member, for people.
    pub async fn member_detail(
        &mut self,
        id: MemberId,
        incarnation: i64,
        detail: Json,
        at: Timestamp,
    ) -> Result<bool> {
        Ok(self.execute(&MEMBER_DETAIL, args![id, incarnation, detail, at]).await? == 1)
    }
}
