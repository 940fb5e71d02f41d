//! Networks, and the desired network state of nodes.

use jiff::Timestamp;
use muster_ids::{NetworkId, NodeId, ProjectId, TenantId};
use muster_model::cell::{Network, subnet};

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, name, vni, subnet, created_at, updated_at, version, shared_files"
    };
}

statements! {
    NETWORK_NUMBER = both("SELECT COALESCE(MAX(vni), 0) + 1 FROM networks");
    // Does nothing if a concurrent transaction created the same network or took the same number.
    NETWORK_INSERT = both(concat!("INSERT INTO networks (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 1, NULL) ON CONFLICT DO NOTHING"));
    // Also a lock: every transaction that assigns an address of the network updates this row first.
    NETWORK_TOUCH = both(concat!("UPDATE networks SET updated_at = $3, version = version + 1
         WHERE project_id = $1 AND name = $2 RETURNING ", columns!()));
    NETWORK_GET = both(concat!("SELECT ", columns!(), " FROM networks WHERE id = $1"));
    NETWORK_BY_NAME = both(concat!("SELECT ", columns!(), " FROM networks WHERE project_id = $1 AND name = $2"));
    NETWORK_LIST = both(concat!("SELECT ", columns!(), " FROM networks WHERE project_id = $1 ORDER BY id"));
    NETWORK_ON_NODE = both(concat!("SELECT ", columns!(), " FROM networks WHERE id IN (
            SELECT network_id FROM cells WHERE node_id = $1 AND state NOT IN ('destroyed', 'failed')) ORDER BY id"));
    NETWORK_NEIGHBOURS = both(
        "SELECT c.id, c.name, c.host, c.node_id, n.address FROM cells c JOIN nodes n ON n.id = c.node_id
         WHERE c.network_id = $1 AND c.state NOT IN ('destroyed', 'failed') AND NOT c.fenced ORDER BY c.host");
    // In id order, because concurrent transactions that lock the same rows in different orders would deadlock.
    BUMP_DESIRED_NETWORK = both(
        "INSERT INTO node_revisions (node_id, desired_revision, observed_revision)
         SELECT id, 1, 0 FROM nodes WHERE id = $2 OR id IN (
            SELECT node_id FROM cells WHERE network_id = $1 AND state NOT IN ('destroyed', 'failed')) ORDER BY id
         ON CONFLICT (node_id) DO UPDATE SET desired_revision = node_revisions.desired_revision + 1 RETURNING node_id");
    BUMP_DESIRED_NODE = both(
        "INSERT INTO node_revisions (node_id, desired_revision, observed_revision)
         SELECT id, 1, 0 FROM nodes WHERE id IN (
            SELECT other.node_id FROM cells mine JOIN cells other ON other.network_id = mine.network_id
            WHERE mine.node_id = $1 AND mine.state NOT IN ('destroyed', 'failed') AND other.state NOT IN ('destroyed', 'failed'))
         ORDER BY id
         ON CONFLICT (node_id) DO UPDATE SET desired_revision = node_revisions.desired_revision + 1");
    BUMP_DESIRED_PEOPLE = both(
        "INSERT INTO node_revisions (node_id, desired_revision, observed_revision)
         SELECT id, 1, 0 FROM nodes WHERE id IN (
            SELECT node_id FROM cells WHERE tenant_id = $1 AND people AND state NOT IN ('destroyed', 'failed')) ORDER BY id
         ON CONFLICT (node_id) DO UPDATE SET desired_revision = node_revisions.desired_revision + 1");
    NODE_REVISIONS_GET = both("SELECT desired_revision, observed_revision FROM node_revisions WHERE node_id = $1");
    OBSERVED_REVISION_SET = both("UPDATE node_revisions SET observed_revision = $2 WHERE node_id = $1 AND desired_revision >= $2");
    // Reachable nodes of a network that have not applied the desired revision yet.
    REVISION_BEHIND = both(
        "SELECT n.name FROM node_revisions w JOIN nodes n ON n.id = w.node_id
         WHERE w.observed_revision < w.desired_revision AND n.unreachable_since IS NULL AND n.retired_at IS NULL AND w.node_id IN (
            SELECT node_id FROM cells WHERE network_id = $1 AND state NOT IN ('destroyed', 'failed') AND NOT fenced)
         ORDER BY n.name LIMIT 10");
    // Cells being provisioned wait until the nodes of their network have applied the change.
    REVISION_WAKE = both(
        "UPDATE operations SET wakes = wakes + 1, due_at = $2 WHERE id IN (
            SELECT operation_id FROM cells WHERE state = 'provisioning' AND network_id IN (
                SELECT network_id FROM cells WHERE node_id = $1 AND state NOT IN ('destroyed', 'failed')))");
    // The first cell with shared files decides the file system; later cells get the same one.
    NETWORK_SHARE = both(
        "UPDATE networks SET shared_files = COALESCE(shared_files, $2) WHERE id = $1 RETURNING shared_files");
    NETWORK_UNSHARE = both("UPDATE networks SET shared_files = NULL WHERE id = $1");
    NETWORK_DELETE_OF_PROJECT = both("DELETE FROM networks WHERE project_id = $1");
    NETWORK_DELETE_OF_TENANT = both("DELETE FROM networks WHERE tenant_id = $1");
}

/// Maximum attempts to find a free network number. Each attempt waits for the concurrent transaction that took the number,
/// so the limit only has to cover projects that create their first cells at the same moment.
const NUMBERS: usize = 64;

fn network(row: &Row) -> Result<Network> {
    Ok(Network {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        name: row.get(3)?,
        vni: row.get(4)?,
        subnet: row.get(5)?,
        created_at: row.get(6)?,
        updated_at: row.get(7)?,
        version: row.get(8)?,
        shared_files: row.get(9)?,
    })
}

/// A cell in a network, with its location.
#[derive(Debug, Clone)]
pub struct NetworkNeighbour {
    /// The cell.
    pub cell_id: muster_ids::CellId,
    /// Its name.
    pub name: String,
    /// Its host number within the network's subnet.
    pub host: i64,
    /// The cell's node.
    pub node_id: NodeId,
    /// The node's address, once known.
    pub node_address: Option<String>,
}

impl Store {
    /// Returns the network with this id.
    pub async fn network_lookup(&self, id: NetworkId) -> Result<Option<Network>> {
        self.fetch_optional(&NETWORK_GET, args![id]).await?.as_ref().map(network).transpose()
    }

    /// Returns the project's network of this name.
    pub async fn network_by_name(&self, project: ProjectId, name: &str) -> Result<Option<Network>> {
        self.fetch_optional(&NETWORK_BY_NAME, args![project, name]).await?.as_ref().map(network).transpose()
    }

    /// Returns a project's networks.
    pub async fn network_list(&self, project: ProjectId) -> Result<Vec<Network>> {
        self.fetch_all(&NETWORK_LIST, args![project]).await?.iter().map(network).collect()
    }

    /// Returns the networks of the cells on a node.
    pub async fn network_on_node(&self, node: NodeId) -> Result<Vec<Network>> {
        self.fetch_all(&NETWORK_ON_NODE, args![node]).await?.iter().map(network).collect()
    }

    /// Returns all cells of a network.
    pub async fn network_neighbours(&self, id: NetworkId) -> Result<Vec<NetworkNeighbour>> {
        let rows = self.fetch_all(&NETWORK_NEIGHBOURS, args![id]).await?;
        rows.iter()
            .map(|row| {
                Ok(NetworkNeighbour {
                    cell_id: row.get(0)?,
                    name: row.get(1)?,
                    host: row.get(2)?,
                    node_id: row.get(3)?,
                    node_address: row.get(4)?,
                })
            })
            .collect()
    }

    /// Returns a node's desired revision and the revision that its agent has applied.
    pub async fn node_revisions(&self, node: NodeId) -> Result<(i64, i64)> {
        let row = self.fetch_optional(&NODE_REVISIONS_GET, args![node]).await?;
        row.map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the names of reachable nodes of a network that have not applied its latest change yet.
    pub async fn nodes_behind(&self, id: NetworkId) -> Result<Vec<String>> {
        self.fetch_all(&REVISION_BEHIND, args![id]).await?.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// Returns the project's network of this name, created if missing, and locks it until this transaction ends.
    pub async fn network_ensure(
        &mut self,
        fresh: NetworkId,
        tenant: TenantId,
        project: ProjectId,
        name: &str,
        at: Timestamp,
    ) -> Result<Network> {
        for _ in 0..NUMBERS {
            if let Some(row) = self.fetch_all(&NETWORK_TOUCH, args![project, name, at]).await?.first() {
                return network(row);
            }
            let rows = self.fetch_all(&NETWORK_NUMBER, args![]).await?;
            let vni: i64 = rows.first().map_or(Ok(1), |row| row.get(0))?;
            self.execute(&NETWORK_INSERT, args![fresh, tenant, project, name, vni, subnet(vni), at]).await?;
        }
        Err(StoreError::Unavailable("too many networks are being created at once".to_owned()))
    }

    /// Returns the file system for files shared by the network's cells; sets it to this one if none is set.
    pub async fn network_share(&mut self, id: NetworkId, shared_files: &str) -> Result<String> {
        let rows = self.fetch_all(&NETWORK_SHARE, args![id, shared_files]).await?;
        rows.first().ok_or(StoreError::Gone("network".to_owned()))?.get(0)
    }

    /// Clears the network's shared file system after all shared files were removed.
    pub async fn network_unshare(&mut self, id: NetworkId) -> Result<()> {
        self.execute(&NETWORK_UNSHARE, args![id]).await.map(drop)
    }

    /// Bumps the desired revision of a network's nodes and of this node, and returns those nodes.
    pub async fn bump_desired(&mut self, id: NetworkId, node: NodeId) -> Result<Vec<NodeId>> {
        self.fetch_all(&BUMP_DESIRED_NETWORK, args![id, node]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Bumps the desired revision of all nodes that share a network with this node, because its address has changed.
    pub async fn bump_desired_node(&mut self, node: NodeId) -> Result<()> {
        self.execute(&BUMP_DESIRED_NODE, args![node]).await.map(drop)
    }

    /// Bumps the desired revision of all nodes with cells of a tenant that people can log in to.
    pub async fn bump_desired_people(&mut self, tenant: TenantId) -> Result<()> {
        self.execute(&BUMP_DESIRED_PEOPLE, args![tenant]).await.map(drop)
    }

    /// Records the revision that a node's agent has applied.
    pub async fn set_observed_revision(&mut self, node: NodeId, revision: i64) -> Result<()> {
        self.execute(&OBSERVED_REVISION_SET, args![node, revision]).await.map(drop)
    }

    /// Wakes operations on cells that may wait for the revision this node has applied. Must not run in the transaction that
    /// records the revision: the engine locks an operation's row before it bumps revisions, and the reverse order could
    /// deadlock.
    pub async fn wake_revision_waiters(&mut self, node: NodeId, now: Timestamp) -> Result<()> {
        self.execute(&REVISION_WAKE, args![node, now]).await.map(drop)
    }

    /// Removes a project's networks. None of its cells may be left.
    pub async fn network_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&NETWORK_DELETE_OF_PROJECT, args![project]).await
    }

    /// Does the same for all projects of a tenant.
    pub async fn network_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&NETWORK_DELETE_OF_TENANT, args![tenant]).await
    }
}
