//! Cells, the node ports that lead to them, and the archived tail of their services' logs.

use jiff::Timestamp;
use muster_ids::{AllocationId, ArtifactId, CellId, NetworkId, NodeId, ProjectId, TenantId};
use muster_model::LabelSelector;
use muster_model::cell::{Cell, CellFailure, CellLog, CellState, NodePort};
use serde_json::Value;

use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

/// So many kept logs of a cell are listed, the newest.
const CELL_LOGS: i64 = 200;
/// So many bytes of kept logs are listed; the log that goes beyond is the last.
const CELL_LOG_BYTES: i64 = 4 << 20;

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, allocation_id, node_id, network_id, name, labels, spec, people, host, state, incarnation,
         reason, message, running_witness_id, destroyed_witness_id, operation_id, created_at, updated_at, version,
         artifact_id, member_id, fenced"
    };
}

statements! {
    CELL_REQUEST = both(concat!("INSERT INTO cells (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, NULL, NULL, NULL, NULL, $14, $15, $15, 1, $16, $17, $18)"));
    CELL_GET = both(concat!("SELECT ", columns!(), " FROM cells WHERE id = $1"));
    // A live cell comes first; otherwise the latest one.
    CELL_BY_NAME = both(concat!("SELECT ", columns!(), " FROM cells WHERE project_id = $1 AND name = $2
         ORDER BY CASE WHEN state IN ('destroyed', 'failed') THEN 1 ELSE 0 END, id DESC LIMIT 1"));
    // $1 after, $2 limit, $3 and $4 labels, $5 project, $6 state or null, $7 allocation or null.
    CELL_LIST = pair(
        concat!("SELECT ", columns!(), " FROM cells WHERE id > $1 AND project_id = $5
            AND ($6::text IS NULL OR state = $6) AND ($7::uuid IS NULL OR allocation_id = $7) AND ",
            labels_match!(pg "$3" "$4"), " ORDER BY id LIMIT $2"),
        concat!("SELECT ", columns!(), " FROM cells WHERE id > $1 AND project_id = $5
            AND ($6 IS NULL OR state = $6) AND ($7 IS NULL OR allocation_id = $7) AND ",
            labels_match!(sqlite "$3" "$4"), " ORDER BY id LIMIT $2"));
    CELL_LIVE_IN = both(concat!("SELECT ", columns!(), " FROM cells WHERE allocation_id = $1
         AND state NOT IN ('destroyed', 'failed') ORDER BY id"));
    CELL_LIVE_ON = both(concat!("SELECT ", columns!(), " FROM cells WHERE node_id = $1
         AND state NOT IN ('destroyed', 'failed') ORDER BY id"));
    // Bare cells that ended on reachable nodes and have the restart policy `always`. Each incarnation is decided once. The
    // policy is in the cell's JSON document, which the two databases query with different syntax.
    CELL_TO_RESTART = pair(
        concat!("SELECT ", columns!(), " FROM cells c WHERE c.state = 'running' AND c.member_id IS NULL AND c.spec ->> 'restart' = 'always'
            AND EXISTS (SELECT 1 FROM cell_observations o WHERE o.cell_id = c.id AND o.incarnation = c.incarnation AND NOT o.alive)
            AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = c.node_id AND n.unreachable_since IS NULL AND n.retired_at IS NULL)
            AND NOT EXISTS (SELECT 1 FROM cell_restarts r WHERE r.cell_id = c.id AND r.incarnation = c.incarnation)
            AND NOT EXISTS (SELECT 1 FROM operation_locks t WHERE t.thing = c.id OR t.thing = c.allocation_id)
         ORDER BY c.id LIMIT $1"),
        concat!("SELECT ", columns!(), " FROM cells c WHERE c.state = 'running' AND c.member_id IS NULL
            AND json_extract(c.spec, '$.restart') = 'always'
            AND EXISTS (SELECT 1 FROM cell_observations o WHERE o.cell_id = c.id AND o.incarnation = c.incarnation AND NOT o.alive)
            AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = c.node_id AND n.unreachable_since IS NULL AND n.retired_at IS NULL)
            AND NOT EXISTS (SELECT 1 FROM cell_restarts r WHERE r.cell_id = c.id AND r.incarnation = c.incarnation)
            AND NOT EXISTS (SELECT 1 FROM operation_locks t WHERE t.thing = c.id OR t.thing = c.allocation_id)
         ORDER BY c.id LIMIT $1"));
    CELL_RESTART_DECIDE = both(
        "INSERT INTO cell_restarts (cell_id, incarnation, opened, at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (cell_id, incarnation) DO NOTHING");
    CELL_RESTART_COUNT = both("SELECT COUNT(*) FROM cell_restarts WHERE cell_id = $1 AND opened AND at > $2");
    CELL_HOSTS = both("SELECT host FROM cells WHERE network_id = $1 AND state NOT IN ('destroyed', 'failed') ORDER BY host");
    // Used by the engine: every column that a step can change, conditional on the version it read.
    CELL_MOVE = both(
        "UPDATE cells SET state = $2, incarnation = $3, reason = $4, message = $5, running_witness_id = $6, destroyed_witness_id = $7,
            operation_id = $8, updated_at = $9, version = version + 1
         WHERE id = $1 AND version = $10");
    CELL_FENCE = both("UPDATE cells SET fenced = $2, updated_at = $3, version = version + 1 WHERE id = $1");
    CELL_LET_IN_ON = both("UPDATE cells SET fenced = $2, updated_at = $3, version = version + 1
         WHERE node_id = $1 AND fenced AND state NOT IN ('destroyed', 'failed')
            AND member_id IN (SELECT id FROM members WHERE state NOT IN ('removing', 'removed'))");
    MEMBER_LET_IN_ON = both("UPDATE members SET fenced = $2, updated_at = $3, version = version + 1
         WHERE fenced AND state NOT IN ('removing', 'removed') AND cell_id IN (SELECT id FROM cells WHERE node_id = $1)");
    // A cell's spec changes only between two incarnations.
    CELL_REMAKE = both(
        "UPDATE cells SET spec = $2, artifact_id = $3, updated_at = $4, version = version + 1 WHERE id = $1 AND version = $5");
    // Keeps a cell's incarnation from ending or changing until the transaction ends.
    CELL_HOLD = pair(
        "SELECT id FROM cells WHERE id = $1 AND incarnation = $2 AND state IN ('requested', 'provisioning', 'running') FOR SHARE",
        "SELECT id FROM cells WHERE id = $1 AND incarnation = $2 AND state IN ('requested', 'provisioning', 'running')");
    NODE_PORT_INSERT = both(
        "INSERT INTO node_ports (node_id, protocol, port, cell_id, cell_port) VALUES ($1, $2, $3, $4, $5)");
    NODE_PORT_OF_CELL = both(
        "SELECT protocol, port, cell_port FROM node_ports WHERE cell_id = $1 ORDER BY protocol, port");
    NODE_PORT_TAKEN = both("SELECT port FROM node_ports WHERE node_id = $1 AND protocol = $2 ORDER BY port");
    NODE_PORT_FREE = both("DELETE FROM node_ports WHERE cell_id = $1");
    CELL_LOG_KEEP = both(
        "INSERT INTO cell_logs (cell_id, incarnation, service, text, truncated, kept_at) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (cell_id, incarnation, service) DO UPDATE SET text = excluded.text, truncated = excluded.truncated,
            kept_at = excluded.kept_at");
    // The newest, until they have so many bytes.
    CELL_LOG_LIST = pair(
        "SELECT l.incarnation, l.service, l.text, l.truncated, l.kept_at FROM cell_logs l JOIN (
            SELECT found.*, (SUM(bytes) OVER (ORDER BY incarnation DESC, service))::bigint - bytes AS bytes_before FROM (
                SELECT incarnation, service, OCTET_LENGTH(text)::bigint AS bytes FROM cell_logs
                WHERE cell_id = $1 ORDER BY incarnation DESC, service LIMIT $2) AS found) AS summed
            ON summed.incarnation = l.incarnation AND summed.service = l.service
         WHERE l.cell_id = $1 AND summed.bytes_before < $3 ORDER BY l.incarnation, l.service",
        "SELECT l.incarnation, l.service, l.text, l.truncated, l.kept_at FROM cell_logs l JOIN (
            SELECT found.*, SUM(bytes) OVER (ORDER BY incarnation DESC, service) - bytes AS bytes_before FROM (
                SELECT incarnation, service, OCTET_LENGTH(text) AS bytes FROM cell_logs
                WHERE cell_id = $1 ORDER BY incarnation DESC, service LIMIT $2) AS found) AS summed
            ON summed.incarnation = l.incarnation AND summed.service = l.service
         WHERE l.cell_id = $1 AND summed.bytes_before < $3 ORDER BY l.incarnation, l.service");
    CELL_LOG_PRUNE = both("DELETE FROM cell_logs WHERE kept_at < $1");
    CELL_LOG_DELETE_OF_PROJECT = both(
        "DELETE FROM cell_logs WHERE cell_id IN (SELECT id FROM cells WHERE project_id = $1)");
    CELL_OBSERVATION_DELETE_OF_PROJECT = both(
        "DELETE FROM cell_observations WHERE cell_id IN (SELECT id FROM cells WHERE project_id = $1)");
    CELL_RESTART_DELETE_OF_PROJECT = both(
        "DELETE FROM cell_restarts WHERE cell_id IN (SELECT id FROM cells WHERE project_id = $1)");
    CELL_DELETE_OF_PROJECT = both("DELETE FROM cells WHERE project_id = $1 AND state IN ('destroyed', 'failed')");
    CELL_LOG_DELETE_OF_TENANT = both(
        "DELETE FROM cell_logs WHERE cell_id IN (SELECT id FROM cells WHERE tenant_id = $1)");
    CELL_OBSERVATION_DELETE_OF_TENANT = both(
        "DELETE FROM cell_observations WHERE cell_id IN (SELECT id FROM cells WHERE tenant_id = $1)");
    CELL_RESTART_DELETE_OF_TENANT = both(
        "DELETE FROM cell_restarts WHERE cell_id IN (SELECT id FROM cells WHERE tenant_id = $1)");
    CELL_DELETE_OF_TENANT = both("DELETE FROM cells WHERE tenant_id = $1 AND state IN ('destroyed', 'failed')");
}

fn node_port(row: &Row) -> Result<NodePort> {
    Ok(NodePort { protocol: row.get(0)?, port: row.get(1)?, cell_port: row.get(2)? })
}

fn cell(row: &Row) -> Result<Cell> {
    Ok(Cell {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        allocation_id: row.get(3)?,
        node_id: row.get(4)?,
        network_id: row.get(5)?,
        name: row.get(6)?,
        labels: row.get(7)?,
        spec: row.get(8)?,
        people: row.get(9)?,
        host: row.get(10)?,
        state: CellState::parse(&row.get::<String>(11)?).ok_or(StoreError::Corrupt("a state of a cell"))?,
        incarnation: row.get(12)?,
        reason: row.get::<Option<String>>(13)?.and_then(|reason| CellFailure::parse(&reason)),
        message: row.get(14)?,
        running_witness_id: row.get(15)?,
        destroyed_witness_id: row.get(16)?,
        operation_id: row.get(17)?,
        created_at: row.get(18)?,
        updated_at: row.get(19)?,
        version: row.get(20)?,
        artifact_id: row.get(21)?,
        member_id: row.get(22)?,
        fenced: row.get(23)?,
    })
}

/// Filter for lists of cells.
#[derive(Debug, Clone, Copy, Default)]
pub struct CellFilter {
    /// Only cells in this state.
    pub state: Option<CellState>,
    /// Only cells in this allocation.
    pub allocation: Option<AllocationId>,
}

impl Store {
    /// Returns the cell with this id.
    pub async fn cell_lookup(&self, id: CellId) -> Result<Option<Cell>> {
        self.fetch_optional(&CELL_GET, args![id]).await?.as_ref().map(cell).transpose()
    }

    /// Returns the cell of this name: the live one, or else the latest.
    pub async fn cell_by_name(&self, project: ProjectId, name: &str) -> Result<Option<Cell>> {
        self.fetch_optional(&CELL_BY_NAME, args![project, name]).await?.as_ref().map(cell).transpose()
    }

    /// Returns a project's cells in creation order.
    pub async fn cell_list(
        &self,
        page: Page,
        labels: &LabelSelector,
        project: ProjectId,
        filter: CellFilter,
    ) -> Result<Vec<Cell>> {
        let args = args![
            page.after,
            page.size,
            labels.equal_json(),
            labels.not_equal_json(),
            project,
            filter.state.map(CellState::as_str),
            filter.allocation
        ];
        self.fetch_all(&CELL_LIST, args).await?.iter().map(cell).collect()
    }

    /// Returns the live cells of an allocation.
    pub async fn cell_live_in(&self, allocation: AllocationId) -> Result<Vec<Cell>> {
        self.fetch_all(&CELL_LIVE_IN, args![allocation]).await?.iter().map(cell).collect()
    }

    /// Returns the live cells of a node.
    pub async fn cell_live_on(&self, node: NodeId) -> Result<Vec<Cell>> {
        self.fetch_all(&CELL_LIVE_ON, args![node]).await?.iter().map(cell).collect()
    }

    /// Returns bare cells that ended on a reachable node, have the restart policy `always` and no restart decision yet.
    pub async fn cell_to_restart(&self, most: i64) -> Result<Vec<Cell>> {
        self.fetch_all(&CELL_TO_RESTART, args![most]).await?.iter().map(cell).collect()
    }

    /// Returns the ports of its node that lead to a cell.
    pub async fn node_port_of(&self, cell: CellId) -> Result<Vec<NodePort>> {
        self.fetch_all(&NODE_PORT_OF_CELL, args![cell]).await?.iter().map(node_port).collect()
    }

    /// Archived logs of a cell: the newest ones, at most `CELL_LOGS` and until they have `CELL_LOG_BYTES` bytes.
    pub async fn cell_log_list(&self, cell: CellId) -> Result<Vec<CellLog>> {
        let rows = self.fetch_all(&CELL_LOG_LIST, args![cell, CELL_LOGS, CELL_LOG_BYTES]).await?;
        rows.iter()
            .map(|row| {
                Ok(CellLog {
                    incarnation: row.get(0)?,
                    service: row.get(1)?,
                    text: row.get(2)?,
                    truncated: row.get(3)?,
                    kept_at: row.get(4)?,
                })
            })
            .collect()
    }
}

impl Tx {
    /// Returns the cell with this id, as read by this transaction.
    pub async fn cell_now(&mut self, id: CellId) -> Result<Option<Cell>> {
        self.fetch_all(&CELL_GET, args![id]).await?.first().map(cell).transpose()
    }

    /// Decides whether an ended incarnation is restarted; reports whether it was undecided.
    pub async fn cell_restart_decide(
        &mut self,
        cell: CellId,
        incarnation: i64,
        opened: bool,
        at: Timestamp,
    ) -> Result<bool> {
        Ok(self.execute(&CELL_RESTART_DECIDE, args![cell, incarnation, opened, at]).await? == 1)
    }

    /// Returns how often a cell was restarted by its policy after a time.
    pub async fn cell_restart_count(&mut self, cell: CellId, after: Timestamp) -> Result<i64> {
        let rows = self.fetch_all(&CELL_RESTART_COUNT, args![cell, after]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Stores a new cell; returns `Gone` if a secret that it names does not exist.
    pub async fn cell_request(&mut self, cell: &Cell) -> Result<()> {
        self.secret_hold(cell.project_id, &cell.spec).await?;
        let args = args![
            cell.id,
            cell.tenant_id,
            cell.project_id,
            cell.allocation_id,
            cell.node_id,
            cell.network_id,
            &cell.name,
            &cell.labels,
            cell.spec.clone(),
            cell.people,
            cell.host,
            cell.state.as_str(),
            cell.incarnation,
            cell.operation_id,
            cell.created_at,
            cell.artifact_id,
            cell.member_id,
            cell.fenced
        ];
        self.execute(&CELL_REQUEST, args).await.map(drop)
    }

    /// Updates a cell. `before` is the row that the step read; returns `Stale` if it changed since.
    pub async fn cell_move(&mut self, before: &Cell, after: &Cell, at: Timestamp) -> Result<()> {
        if !before.state.can_become(after.state) {
            let message = format!("a cell that is {} cannot become {}", before.state, after.state);
            return Err(StoreError::Conflict(message));
        }
        let args = args![
            after.id,
            after.state.as_str(),
            after.incarnation,
            after.reason.map(CellFailure::as_str),
            after.message.as_deref(),
            after.running_witness_id,
            after.destroyed_witness_id,
            after.operation_id,
            at,
            before.version
        ];
        self.execute_one(&CELL_MOVE, args, StoreError::Stale).await?;
        if after.state.is_final() {
            self.execute(&NODE_PORT_FREE, args![after.id]).await?;
            self.runtime_secret_revoke_of_cell(after.id, after.incarnation + 1, at).await?;
        } else if after.incarnation > before.incarnation {
            self.runtime_secret_revoke_of_cell(after.id, after.incarnation, at).await?;
        }
        Ok(())
    }

    /// Hides a cell from its neighbours; the caller bumps the desired revision of their nodes.
    pub async fn cell_fence(&mut self, id: CellId, at: Timestamp) -> Result<()> {
        self.execute(&CELL_FENCE, args![id, true, at]).await.map(drop)
    }

    /// Returns the live cells in an allocation, as read by this transaction.
    pub async fn cell_live_in_now(&mut self, allocation: AllocationId) -> Result<Vec<Cell>> {
        self.fetch_all(&CELL_LIVE_IN, args![allocation]).await?.iter().map(cell).collect()
    }

    /// Makes a cell visible to its neighbours again; the caller bumps the desired revision of their nodes.
    pub async fn cell_let_in(&mut self, id: CellId, at: Timestamp) -> Result<()> {
        self.execute(&CELL_FENCE, args![id, false, at]).await.map(drop)
    }

    /// Unfences the members on a node and makes their cells visible to their neighbours again, except members that are being
    /// removed. Reports whether there were any; the caller bumps the desired revision of their nodes.
    pub async fn cell_let_in_on(&mut self, node: NodeId, at: Timestamp) -> Result<bool> {
        let cells = self.execute(&CELL_LET_IN_ON, args![node, false, at]).await?;
        let members = self.execute(&MEMBER_LET_IN_ON, args![node, false, at]).await?;
        Ok(cells + members > 0)
    }

    /// Sets the spec of a cell's next incarnation.
    pub async fn cell_remake(
        &mut self,
        before: &Cell,
        spec: &Value,
        artifact: Option<ArtifactId>,
        at: Timestamp,
    ) -> Result<()> {
        self.secret_hold(before.project_id, spec).await?;
        let args = args![before.id, spec.clone(), artifact, at, before.version];
        self.execute_one(&CELL_REMAKE, args, StoreError::Stale).await
    }

    /// Locks this incarnation of a cell until the transaction ends; returns `Fenced` if it has ended or is being destroyed.
    pub async fn cell_hold(&mut self, cell: CellId, incarnation: i64) -> Result<()> {
        match self.fetch_all(&CELL_HOLD, args![cell, incarnation]).await?.is_empty() {
            false => Ok(()),
            true => Err(StoreError::Fenced),
        }
    }

    /// Returns the host numbers in use in a network, in order. The network's row must be locked.
    pub async fn cell_hosts(&mut self, network: NetworkId) -> Result<Vec<i64>> {
        self.fetch_all(&CELL_HOSTS, args![network]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Returns the ports that lead to a cell, as read by this transaction.
    pub async fn node_port_of_now(&mut self, cell: CellId) -> Result<Vec<NodePort>> {
        self.fetch_all(&NODE_PORT_OF_CELL, args![cell]).await?.iter().map(node_port).collect()
    }

    /// Removes all ports that lead to a cell.
    pub async fn node_port_free(&mut self, cell: CellId) -> Result<()> {
        self.execute(&NODE_PORT_FREE, args![cell]).await.map(drop)
    }

    /// Returns the ports of a node that are in use, in order.
    pub async fn node_port_taken(&mut self, node: NodeId, protocol: &str) -> Result<Vec<i64>> {
        self.fetch_all(&NODE_PORT_TAKEN, args![node, protocol]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Makes a port of a node lead to a cell; returns `Conflict` if it leads to another.
    pub async fn node_port_insert(&mut self, node: NodeId, cell: CellId, port: &NodePort) -> Result<()> {
        let args = args![node, &port.protocol, port.port, cell, port.cell_port];
        self.execute(&NODE_PORT_INSERT, args).await.map(drop)
    }

    /// Archives the tail of a service's log.
    pub async fn cell_log_keep(&mut self, cell: CellId, log: &CellLog) -> Result<()> {
        let args = args![cell, log.incarnation, &log.service, &log.text, log.truncated, log.kept_at];
        self.execute(&CELL_LOG_KEEP, args).await.map(drop)
    }

    /// Deletes logs that were archived before `until`.
    pub async fn cell_log_prune(&mut self, until: Timestamp) -> Result<u64> {
        self.execute(&CELL_LOG_PRUNE, args![until]).await
    }

    /// Removes the history of a project's cells and returns how many there were. None may be live.
    pub async fn cell_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.stream_delete_of_project(project).await?;
        self.execute(&CELL_LOG_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&CELL_OBSERVATION_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&CELL_RESTART_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&CELL_DELETE_OF_PROJECT, args![project]).await
    }

    /// Does the same for all projects of a tenant.
    pub async fn cell_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.stream_delete_of_tenant(tenant).await?;
        self.execute(&CELL_LOG_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&CELL_OBSERVATION_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&CELL_RESTART_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&CELL_DELETE_OF_TENANT, args![tenant]).await
    }
}
