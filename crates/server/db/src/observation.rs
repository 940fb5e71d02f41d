//! Observations: agents' reports on cells and adapters' reports on members, stored beside the rows because they age.

use jiff::Timestamp;
use muster_ids::{CellId, InstanceId, MemberId, NodeId};
use muster_model::assess::{AdapterReport, CellObservation};
use muster_model::instance::Health;
use serde_json::Value as Json;

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    // Only for the current incarnation, on its own node. `since` stays as long as `alive` does.
    CELL_OBSERVE = both(
        "INSERT INTO cell_observations (cell_id, incarnation, alive, services, message, boot_id, since, observed_at)
         SELECT id, $3, $4, $5, $6, $7, $8, $8 FROM cells
         WHERE id = $1 AND node_id = $2 AND incarnation = $3 AND state NOT IN ('destroyed', 'failed')
         ON CONFLICT (cell_id) DO UPDATE SET
            since = CASE WHEN cell_observations.incarnation = excluded.incarnation AND cell_observations.alive = excluded.alive
                         THEN cell_observations.since ELSE excluded.since END,
            incarnation = excluded.incarnation, alive = excluded.alive, services = excluded.services, message = excluded.message,
            boot_id = excluded.boot_id, observed_at = excluded.observed_at");
    CELL_OBSERVATION = both(
        "SELECT incarnation, alive, services, message, boot_id, since, observed_at FROM cell_observations WHERE cell_id = $1");
    CELL_OBSERVATION_DELETE = both("DELETE FROM cell_observations WHERE cell_id = $1");
    NODE_OBSERVED = both("UPDATE node_heartbeats SET observed_at = $2 WHERE node_id = $1");
    MEMBER_REPORT = both(
        "INSERT INTO member_reports (member_id, incarnation, health, message, at)
         SELECT id, $2, $3, $4, $5 FROM members WHERE id = $1 AND incarnation = $2 AND state <> 'removed'
         ON CONFLICT (member_id) DO UPDATE SET incarnation = excluded.incarnation, health = excluded.health,
            message = excluded.message, at = excluded.at");
    INSTANCE_OF_CELL = both(
        "SELECT m.instance_id FROM members m JOIN instances i ON i.id = m.instance_id
         WHERE m.cell_id = $1 AND i.state NOT IN ('created', 'stopped')");
    // Instances with members that changed since $1, or with observations that are stale by $2.
    INSTANCES_TO_ASSESS = both(
        "SELECT id FROM instances WHERE state NOT IN ('created', 'stopped') AND (
            id IN (SELECT instance_id FROM members WHERE updated_at >= $1)
            OR id IN (SELECT id FROM instances WHERE assess_due_at <= $2))
         ORDER BY id");
    INSTANCES_WITH_HEALTH = both("SELECT id FROM instances WHERE state NOT IN ('created', 'stopped') ORDER BY id");
    INSTANCES_ASSESS_ON_NODE = both(
        "UPDATE instances SET assess_due_at = $2 WHERE state NOT IN ('created', 'stopped') AND id IN (
            SELECT m.instance_id FROM members m JOIN allocations a ON a.id = m.allocation_id
            WHERE a.node_id = $1 AND m.state <> 'removed')");
    INSTANCES_ASSESS_UNCONFIRMED = both(
        "UPDATE instances SET assess_due_at = $1 WHERE state NOT IN ('created', 'stopped') AND id IN (
            SELECT instance_id FROM members WHERE health_reason = 'unconfirmed' AND state <> 'removed')");
    // Independent of all other changes of the row, so the version stays.
    INSTANCE_ASSESSED = both("UPDATE instances SET assess_due_at = $2, adapter_silent_at = $3 WHERE id = $1");
    INSTANCE_SILENT_AT = both("SELECT adapter_silent_at, assess_due_at FROM instances WHERE id = $1");
    INSTANCE_HEALTH_COUNT = both(
        "SELECT state, health, COUNT(*) FROM instances WHERE state <> 'stopped' GROUP BY state, health ORDER BY state, health");
    // Health of another incarnation does not count.
    MEMBER_HEALTH_COUNT = both(
        "SELECT state, known, COUNT(*) FROM (
            SELECT state, CASE WHEN health_incarnation = incarnation THEN health ELSE 'unknown' END AS known
            FROM members WHERE state <> 'removed') AS living
         GROUP BY state, known ORDER BY state, known");
    CELLS_DEAD_COUNT = both(
        "SELECT COUNT(*) FROM cell_observations o JOIN cells c ON c.id = o.cell_id AND c.incarnation = o.incarnation
         WHERE NOT o.alive AND c.state = 'running'");
    ADAPTERS_SILENT_COUNT = both("SELECT COUNT(*) FROM instances WHERE state = 'running' AND adapter_silent_at <= $1");
    RECONCILES_OVERDUE_COUNT = both("SELECT COUNT(*) FROM instances WHERE state = 'running' AND reconcile_due_at <= $1");
    NODES_UNCONFIRMED_COUNT = both(
        "SELECT COUNT(*) FROM nodes n JOIN node_heartbeats h ON h.node_id = n.id
         WHERE n.retired_at IS NULL AND n.unreachable_since IS NULL AND COALESCE(h.observed_at, n.created_at) <= $1");
    NODE_CONFIRMED_AT = both("SELECT observed_at FROM node_heartbeats WHERE node_id = $1");
    INSTANCE_ADAPTER_HEARD = both("UPDATE instances SET adapter_silent_at = $2 WHERE id = $1");
}

/// An agent's report on a cell.
#[derive(Debug, Clone)]
pub struct CellReport {
    /// The cell.
    pub cell_id: CellId,
    /// Its incarnation.
    pub incarnation: i64,
    /// Whether its first process runs.
    pub alive: bool,
    /// Its services.
    pub services: Json,
    /// Any other problem with it.
    pub message: Option<String>,
    /// The node's boot id.
    pub boot_id: String,
}

/// Reads an observation that starts at a column.
pub(crate) fn observation(row: &Row, from: usize) -> Result<Option<CellObservation>> {
    let Some(incarnation) = row.get::<Option<i64>>(from)? else { return Ok(None) };
    let services = serde_json::from_value(row.get::<Json>(from + 2)?)
        .map_err(|_| StoreError::Corrupt("the services of a cell"))?;
    Ok(Some(CellObservation {
        incarnation,
        alive: row.get(from + 1)?,
        services,
        message: row.get(from + 3)?,
        boot_id: row.get(from + 4)?,
        since: row.get(from + 5)?,
        observed_at: row.get(from + 6)?,
    }))
}

/// Reads an adapter's report that starts at a column.
pub(crate) fn report(row: &Row, from: usize) -> Result<Option<AdapterReport>> {
    let Some(incarnation) = row.get::<Option<i64>>(from)? else { return Ok(None) };
    let health = row.get::<String>(from + 1)?;
    let health = Health::parse(&health).ok_or(StoreError::Corrupt("a health"))?;
    Ok(Some(AdapterReport { incarnation, health, message: row.get(from + 2)? }))
}

/// Counts by state and health.
pub type HealthCounts = Vec<(String, String, i64)>;

/// Counts of stale observations and dead cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StaleCounts {
    /// Cells that should be running and are dead.
    pub cells_dead: i64,
    /// Running instances with a silent adapter.
    pub adapters_silent: i64,
    /// Running instances with a reconciliation due before the given time that no adapter has leased.
    pub reconciles_overdue: i64,
    /// Reachable nodes that have not confirmed the status of their cells since the given time.
    pub nodes_unconfirmed: i64,
}

impl Store {
    /// Counts dead cells and stale observations.
    pub async fn stale_count(
        &self,
        now: Timestamp,
        due_before: Timestamp,
        confirmed_before: Timestamp,
    ) -> Result<StaleCounts> {
        let one = |rows: Vec<Row>| rows.first().map_or(Ok(0), |row| row.get(0));
        Ok(StaleCounts {
            cells_dead: one(self.fetch_all(&CELLS_DEAD_COUNT, args![]).await?)?,
            adapters_silent: one(self.fetch_all(&ADAPTERS_SILENT_COUNT, args![now]).await?)?,
            reconciles_overdue: one(self.fetch_all(&RECONCILES_OVERDUE_COUNT, args![due_before]).await?)?,
            nodes_unconfirmed: one(self
                .fetch_all(&NODES_UNCONFIRMED_COUNT, args![confirmed_before])
                .await?)?,
        })
    }

    /// Returns when a node's agent last confirmed the status of its cells.
    pub async fn node_confirmed_at(&self, node: NodeId) -> Result<Option<Timestamp>> {
        let row = self.fetch_optional(&NODE_CONFIRMED_AT, args![node]).await?;
        row.map_or(Ok(None), |row| row.get(0))
    }

    /// Counts instances and members by state and health, without stopped instances and removed members.
    pub async fn health_count(&self) -> Result<(HealthCounts, HealthCounts)> {
        let count = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let instances = self.fetch_all(&INSTANCE_HEALTH_COUNT, args![]).await?;
        let members = self.fetch_all(&MEMBER_HEALTH_COUNT, args![]).await?;
        Ok((
            instances.iter().map(count).collect::<Result<_>>()?,
            members.iter().map(count).collect::<Result<_>>()?,
        ))
    }

    /// Returns the latest report on a cell.
    pub async fn cell_observation(&self, cell: CellId) -> Result<Option<CellObservation>> {
        match self.fetch_optional(&CELL_OBSERVATION, args![cell]).await? {
            Some(row) => observation(&row, 0),
            None => Ok(None),
        }
    }

    /// Returns the instances due for a health assessment: those with members that changed since a time, or with
    /// observations that are stale by now.
    pub async fn instances_to_assess(
        &self,
        changed_since: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<InstanceId>> {
        let rows = self.fetch_all(&INSTANCES_TO_ASSESS, args![changed_since, now]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Returns when an instance's adapter counts as silent, and when the instance is assessed next.
    pub async fn instance_assessment(
        &self,
        id: InstanceId,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>)> {
        match self.fetch_optional(&INSTANCE_SILENT_AT, args![id]).await? {
            Some(row) => Ok((row.get(0)?, row.get(1)?)),
            None => Ok((None, None)),
        }
    }

    /// Returns every instance that has a health: all but those that were never started or have stopped.
    pub async fn instances_with_health(&self) -> Result<Vec<InstanceId>> {
        self.fetch_all(&INSTANCES_WITH_HEALTH, args![]).await?.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// Returns the latest report on a cell, as read by this transaction.
    pub async fn cell_observation_now(&mut self, cell: CellId) -> Result<Option<CellObservation>> {
        let rows = self.fetch_all(&CELL_OBSERVATION, args![cell]).await?;
        rows.first().map_or(Ok(None), |row| observation(row, 0))
    }

    /// Stores an agent's report on a cell; reports whether the cell is on that node in that incarnation.
    pub async fn cell_observe(&mut self, node: NodeId, report: &CellReport, at: Timestamp) -> Result<bool> {
        let args = args![
            report.cell_id,
            node,
            report.incarnation,
            report.alive,
            report.services.clone(),
            report.message.as_deref(),
            &report.boot_id,
            at
        ];
        Ok(self.execute(&CELL_OBSERVE, args).await? == 1)
    }

    /// Deletes the latest report on a cell: its node does not vouch for it any more.
    pub async fn cell_observation_delete(&mut self, cell: CellId) -> Result<()> {
        self.execute(&CELL_OBSERVATION_DELETE, args![cell]).await.map(drop)
    }

    /// Returns the instance that a member's cell belongs to, if it has a health.
    pub async fn instance_of_cell(&mut self, cell: CellId) -> Result<Option<InstanceId>> {
        self.fetch_all(&INSTANCE_OF_CELL, args![cell]).await?.first().map(|row| row.get(0)).transpose()
    }

    /// Records that a node's agent confirmed the status of its cells.
    pub async fn node_observed(&mut self, node: NodeId, at: Timestamp) -> Result<()> {
        self.execute(&NODE_OBSERVED, args![node, at]).await.map(drop)
    }

    /// Stores an adapter's report on a member; reports whether that incarnation is current.
    pub async fn member_report(
        &mut self,
        member: MemberId,
        report: &AdapterReport,
        at: Timestamp,
    ) -> Result<bool> {
        let args = args![member, report.incarnation, report.health.as_str(), report.message.as_deref(), at];
        Ok(self.execute(&MEMBER_REPORT, args).await? == 1)
    }

    /// Schedules a health assessment of every instance on a node.
    pub async fn instances_assess_on(&mut self, node: NodeId, at: Timestamp) -> Result<()> {
        self.execute(&INSTANCES_ASSESS_ON_NODE, args![node, at]).await.map(drop)
    }

    /// Schedules a health assessment of every instance with a member whose status was not confirmed.
    pub async fn instances_assess_unconfirmed(&mut self, at: Timestamp) -> Result<()> {
        self.execute(&INSTANCES_ASSESS_UNCONFIRMED, args![at]).await.map(drop)
    }

    /// Sets when an instance is assessed next, and when its adapter counts as silent.
    pub async fn instance_assessed(
        &mut self,
        id: InstanceId,
        due_at: Option<Timestamp>,
        silent_at: Option<Timestamp>,
    ) -> Result<()> {
        self.execute(&INSTANCE_ASSESSED, args![id, due_at, silent_at]).await.map(drop)
    }

    /// Returns when an instance's adapter counts as silent, if set.
    pub async fn instance_silent_at(&mut self, id: InstanceId) -> Result<Option<Timestamp>> {
        self.fetch_all(&INSTANCE_SILENT_AT, args![id]).await?.first().map_or(Ok(None), |row| row.get(0))
    }

    /// Records a report of an instance's adapter: it counts as silent from `silent_at` on.
    pub async fn instance_adapter_heard(&mut self, id: InstanceId, silent_at: Timestamp) -> Result<()> {
        self.execute(&INSTANCE_ADAPTER_HEARD, args![id, silent_at]).await.map(drop)
    }
}
