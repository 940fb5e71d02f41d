//! What agents report of cells, and adapters of members: facts beside the rows, which age.

use jiff::Timestamp;
use muster_ids::{CellId, InstanceId, MemberId, NodeId};
use muster_model::assess::{AdapterReport, CellObservation};
use muster_model::instance::Health;
use serde_json::Value as Json;

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    // Only of the incarnation that is there, on that very node. `since` stays while it stays alive, or dead.
    CELL_OBSERVE = both(
        "INSERT INTO cell_observations (cell_id, incarnation, alive, services, message, boot_id, since, observed_at)
         SELECT id, $3, $4, $5, $6, $7, $8, $8 FROM cells
         WHERE id = $1 AND node_id = $2 AND incarnation = $3 AND state NOT IN ('gone', 'failed')
         ON CONFLICT (cell_id) DO UPDATE SET
            since = CASE WHEN cell_observations.incarnation = excluded.incarnation AND cell_observations.alive = excluded.alive
                         THEN cell_observations.since ELSE excluded.since END,
            incarnation = excluded.incarnation, alive = excluded.alive, services = excluded.services, message = excluded.message,
            boot_id = excluded.boot_id, observed_at = excluded.observed_at");
    CELL_OBSERVATION = both(
        "SELECT incarnation, alive, services, message, boot_id, since, observed_at FROM cell_observations WHERE cell_id = $1");
    NODE_OBSERVED = both("UPDATE node_heartbeats SET observed_at = $2 WHERE node_id = $1");
    MEMBER_REPORT = both(
        "INSERT INTO member_reports (member_id, incarnation, health, message, at)
         SELECT id, $2, $3, $4, $5 FROM members WHERE id = $1 AND incarnation = $2 AND state <> 'removed'
         ON CONFLICT (member_id) DO UPDATE SET incarnation = excluded.incarnation, health = excluded.health,
            message = excluded.message, at = excluded.at");
    INSTANCE_OF_CELL = both(
        "SELECT m.instance_id FROM members m JOIN instances i ON i.id = m.instance_id
         WHERE m.cell_id = $1 AND i.state = 'running'");
    // Whose members changed since, whose facts have become too old, or who is below what it should have.
    INSTANCES_TO_ASSESS = both(
        "SELECT id FROM instances WHERE state = 'running' AND (
            id IN (SELECT instance_id FROM members WHERE updated_at >= $1)
            OR id IN (SELECT id FROM instances WHERE assess_due_at <= $2))
         ORDER BY id LIMIT $3");
    INSTANCES_RUNNING = both("SELECT id FROM instances WHERE state = 'running' ORDER BY id");
    INSTANCES_ASSESS_ON_NODE = both(
        "UPDATE instances SET assess_due_at = $2 WHERE state = 'running' AND id IN (
            SELECT m.instance_id FROM members m JOIN allocations a ON a.id = m.allocation_id
            WHERE a.node_id = $1 AND m.state <> 'removed')");
    // Facts beside the row, which no change of the row is at odds with: so the version stays.
    INSTANCE_ASSESSED = both("UPDATE instances SET assess_due_at = $2, adapter_silent_at = $3 WHERE id = $1");
    INSTANCE_SILENT_AT = both("SELECT adapter_silent_at, assess_due_at FROM instances WHERE id = $1");
    INSTANCE_HEALTH_COUNT = both(
        "SELECT state, health, COUNT(*) FROM instances WHERE state <> 'stopped' GROUP BY state, health ORDER BY state, health");
    // What was found of another incarnation does not count.
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

/// What an agent reported of a cell.
#[derive(Debug, Clone)]
pub struct CellReport {
    /// Which cell.
    pub cell_id: CellId,
    /// Which incarnation of it.
    pub incarnation: i64,
    /// Whether its first process runs.
    pub alive: bool,
    /// Its services.
    pub services: Json,
    /// Anything else that is wrong with it.
    pub message: Option<String>,
    /// Which start of the machine.
    pub boot_id: String,
}

/// Reads an observation that begins at a column.
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

/// Reads an adapter's report that begins at a column.
pub(crate) fn report(row: &Row, from: usize) -> Result<Option<AdapterReport>> {
    let Some(incarnation) = row.get::<Option<i64>>(from)? else { return Ok(None) };
    let health = row.get::<String>(from + 1)?;
    let health = Health::parse(&health).ok_or(StoreError::Corrupt("a health"))?;
    Ok(Some(AdapterReport { incarnation, health, message: row.get(from + 2)? }))
}

/// How many there are of each state and health.
pub type HealthCounts = Vec<(String, String, i64)>;

/// How much of what the platform relies on is older than its bound, or dead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StaleCounts {
    /// Cells that should run and are dead.
    pub cells_dead: i64,
    /// Running instances whose adapter is silent.
    pub adapters_silent: i64,
    /// Running instances whose look was due before the given time, and which no adapter took up.
    pub reconciles_overdue: i64,
    /// Nodes that answer and have not confirmed the status of their cells since the given time.
    pub nodes_unconfirmed: i64,
}

impl Store {
    /// Counts what is dead or too old.
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

    /// When the agent of a node last confirmed the status of its cells.
    pub async fn node_confirmed_at(&self, node: NodeId) -> Result<Option<Timestamp>> {
        let row = self.fetch_optional(&NODE_CONFIRMED_AT, args![node]).await?;
        row.map_or(Ok(None), |row| row.get(0))
    }

    /// How many instances and members there are of each state and health; those that are over are not counted.
    pub async fn health_count(&self) -> Result<(HealthCounts, HealthCounts)> {
        let count = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let instances = self.fetch_all(&INSTANCE_HEALTH_COUNT, args![]).await?;
        let members = self.fetch_all(&MEMBER_HEALTH_COUNT, args![]).await?;
        Ok((
            instances.iter().map(count).collect::<Result<_>>()?,
            members.iter().map(count).collect::<Result<_>>()?,
        ))
    }

    /// What was last reported of a cell.
    pub async fn cell_observation(&self, cell: CellId) -> Result<Option<CellObservation>> {
        match self.fetch_optional(&CELL_OBSERVATION, args![cell]).await? {
            Some(row) => observation(&row, 0),
            None => Ok(None),
        }
    }

    /// The running instances whose health has to be assessed: those with members that changed since a time, or whose facts
    /// have become too old by now.
    pub async fn instances_to_assess(
        &self,
        changed_since: Timestamp,
        now: Timestamp,
        most: i64,
    ) -> Result<Vec<InstanceId>> {
        let rows = self.fetch_all(&INSTANCES_TO_ASSESS, args![changed_since, now, most]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// From when on the adapter of an instance counts as silent, and when the instance is assessed next.
    pub async fn instance_assessment(
        &self,
        id: InstanceId,
    ) -> Result<(Option<Timestamp>, Option<Timestamp>)> {
        match self.fetch_optional(&INSTANCE_SILENT_AT, args![id]).await? {
            Some(row) => Ok((row.get(0)?, row.get(1)?)),
            None => Ok((None, None)),
        }
    }

    /// Every running instance.
    pub async fn instances_running(&self) -> Result<Vec<InstanceId>> {
        self.fetch_all(&INSTANCES_RUNNING, args![]).await?.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// What was last reported of a cell, as this transaction sees it.
    pub async fn cell_observation_now(&mut self, cell: CellId) -> Result<Option<CellObservation>> {
        let rows = self.fetch_all(&CELL_OBSERVATION, args![cell]).await?;
        rows.first().map_or(Ok(None), |row| observation(row, 0))
    }

    /// Stores what an agent reported of a cell; says whether the cell is on that node, in that incarnation.
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

    /// The running instance whose member's cell this is.
    pub async fn instance_of_cell(&mut self, cell: CellId) -> Result<Option<InstanceId>> {
        self.fetch_all(&INSTANCE_OF_CELL, args![cell]).await?.first().map(|row| row.get(0)).transpose()
    }

    /// The agent of a node confirmed the status of its cells.
    pub async fn node_observed(&mut self, node: NodeId, at: Timestamp) -> Result<()> {
        self.execute(&NODE_OBSERVED, args![node, at]).await.map(drop)
    }

    /// Stores what an adapter reported of a member; says whether that incarnation is there.
    pub async fn member_report(
        &mut self,
        member: MemberId,
        report: &AdapterReport,
        at: Timestamp,
    ) -> Result<bool> {
        let args = args![member, report.incarnation, report.health.as_str(), report.message.as_deref(), at];
        Ok(self.execute(&MEMBER_REPORT, args).await? == 1)
    }

    /// Has the health of every running instance on a node assessed.
    pub async fn instances_assess_on(&mut self, node: NodeId, at: Timestamp) -> Result<()> {
        self.execute(&INSTANCES_ASSESS_ON_NODE, args![node, at]).await.map(drop)
    }

    /// When an instance is assessed next, and from when on its adapter counts as silent.
    pub async fn instance_assessed(
        &mut self,
        id: InstanceId,
        due_at: Option<Timestamp>,
        silent_at: Option<Timestamp>,
    ) -> Result<()> {
        self.execute(&INSTANCE_ASSESSED, args![id, due_at, silent_at]).await.map(drop)
    }

    /// From when on the adapter of an instance counts as silent, if that was noted.
    pub async fn instance_silent_at(&mut self, id: InstanceId) -> Result<Option<Timestamp>> {
        self.fetch_all(&INSTANCE_SILENT_AT, args![id]).await?.first().map_or(Ok(None), |row| row.get(0))
    }

    /// The adapter of an instance reported: it counts as silent from this time on.
    pub async fn instance_adapter_heard(&mut self, id: InstanceId, silent_at: Timestamp) -> Result<()> {
        self.execute(&INSTANCE_ADAPTER_HEARD, args![id, silent_at]).await.map(drop)
    }
}
