//! Networks, and what nodes should have of them.

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
    // Of no effect where another transaction has just made the same network, or taken the same number for another one.
    NETWORK_INSERT = both(concat!("INSERT INTO networks (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 1, NULL) ON CONFLICT DO NOTHING"));
    // Also a lock: whoever gives out an address of the network comes through here first.
    NETWORK_TOUCH = both(concat!("UPDATE networks SET updated_at = $3, version = version + 1
         WHERE project_id = $1 AND name = $2 RETURNING ", columns!()));
    NETWORK_GET = both(concat!("SELECT ", columns!(), " FROM networks WHERE id = $1"));
    NETWORK_BY_NAME = both(concat!("SELECT ", columns!(), " FROM networks WHERE project_id = $1 AND name = $2"));
    NETWORK_LIST = both(concat!("SELECT ", columns!(), " FROM networks WHERE project_id = $1 ORDER BY id"));
    NETWORK_ON_NODE = both(concat!("SELECT ", columns!(), " FROM networks WHERE id IN (
            SELECT network_id FROM cells WHERE node_id = $1 AND state NOT IN ('gone', 'failed')) ORDER BY id"));
    NETWORK_NEIGHBOURS = both(
        "SELECT c.id, c.name, c.host, c.node_id, n.address FROM cells c JOIN nodes n ON n.id = c.node_id
         WHERE c.network_id = $1 AND c.state NOT IN ('gone', 'failed') AND NOT c.fenced ORDER BY c.host");
    // In order, because two that lock the same rows the other way round lock each other out.
    WANTED_RAISE_NETWORK = both(
        "INSERT INTO node_wanted (node_id, wanted, applied)
         SELECT id, 1, 0 FROM nodes WHERE id = $2 OR id IN (
            SELECT node_id FROM cells WHERE network_id = $1 AND state NOT IN ('gone', 'failed')) ORDER BY id
         ON CONFLICT (node_id) DO UPDATE SET wanted = node_wanted.wanted + 1 RETURNING node_id");
    WANTED_RAISE_NODE = both(
        "INSERT INTO node_wanted (node_id, wanted, applied)
         SELECT id, 1, 0 FROM nodes WHERE id IN (
            SELECT other.node_id FROM cells mine JOIN cells other ON other.network_id = mine.network_id
            WHERE mine.node_id = $1 AND mine.state NOT IN ('gone', 'failed') AND other.state NOT IN ('gone', 'failed'))
         ORDER BY id
         ON CONFLICT (node_id) DO UPDATE SET wanted = node_wanted.wanted + 1");
    WANTED_RAISE_PEOPLE = both(
        "INSERT INTO node_wanted (node_id, wanted, applied)
         SELECT id, 1, 0 FROM nodes WHERE id IN (
            SELECT node_id FROM cells WHERE tenant_id = $1 AND people AND state NOT IN ('gone', 'failed')) ORDER BY id
         ON CONFLICT (node_id) DO UPDATE SET wanted = node_wanted.wanted + 1");
    WANTED_GET = both("SELECT wanted, applied FROM node_wanted WHERE node_id = $1");
    WANTED_APPLIED = both("UPDATE node_wanted SET applied = $2 WHERE node_id = $1 AND wanted >= $2");
    // Nodes of a network that are heard and have not followed yet.
    WANTED_BEHIND = both(
        "SELECT n.name FROM node_wanted w JOIN nodes n ON n.id = w.node_id
         WHERE w.applied < w.wanted AND n.unreachable_since IS NULL AND n.retired_at IS NULL AND w.node_id IN (
            SELECT node_id FROM cells WHERE network_id = $1 AND state NOT IN ('gone', 'failed') AND NOT fenced)
         ORDER BY n.name LIMIT 10");
    // Cells that are being made wait until the nodes of their network know them.
    WANTED_WAKE = both(
        "UPDATE operations SET wakes = wakes + 1, due_at = $2 WHERE id IN (
            SELECT operation_id FROM cells WHERE state = 'provisioning' AND network_id IN (
                SELECT network_id FROM cells WHERE node_id = $1 AND state NOT IN ('gone', 'failed')))");
    // The first cell that shares something decides where; it is told to all that come after.
    NETWORK_SHARE = both(
        "UPDATE networks SET shared_files = COALESCE(shared_files, $2) WHERE id = $1 RETURNING shared_files");
    NETWORK_UNSHARE = both("UPDATE networks SET shared_files = NULL WHERE id = $1");
    NETWORK_DELETE_OF_PROJECT = both("DELETE FROM networks WHERE project_id = $1");
    NETWORK_DELETE_OF_TENANT = both("DELETE FROM networks WHERE tenant_id = $1");
}

/// How often a number for a network is looked for while others take it first. Each try waits for whoever was faster, so there
/// is no need for more than projects whose first cells are asked for in the same moment.
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

/// A cell in a network, and where it is.
#[derive(Debug, Clone)]
pub struct NetworkNeighbour {
    /// Which.
    pub cell_id: muster_ids::CellId,
    /// Its name.
    pub name: String,
    /// Its place among the network's addresses.
    pub host: i64,
    /// On which node.
    pub node_id: NodeId,
    /// That node's address, once its agent has told it.
    pub node_address: Option<String>,
}

impl Store {
    /// The network with this id.
    pub async fn network_lookup(&self, id: NetworkId) -> Result<Option<Network>> {
        self.fetch_optional(&NETWORK_GET, args![id]).await?.as_ref().map(network).transpose()
    }

    /// The project's network of this name.
    pub async fn network_by_name(&self, project: ProjectId, name: &str) -> Result<Option<Network>> {
        self.fetch_optional(&NETWORK_BY_NAME, args![project, name]).await?.as_ref().map(network).transpose()
    }

    /// A project's networks.
    pub async fn network_list(&self, project: ProjectId) -> Result<Vec<Network>> {
        self.fetch_all(&NETWORK_LIST, args![project]).await?.iter().map(network).collect()
    }

    /// The networks of the cells on a node.
    pub async fn network_on_node(&self, node: NodeId) -> Result<Vec<Network>> {
        self.fetch_all(&NETWORK_ON_NODE, args![node]).await?.iter().map(network).collect()
    }

    /// Everybody in a network.
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

    /// What a node should have, and what its agent has said it has: the numbers.
    pub async fn wanted(&self, node: NodeId) -> Result<(i64, i64)> {
        let row = self.fetch_optional(&WANTED_GET, args![node]).await?;
        row.map_or(Ok((0, 0)), |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Nodes of a network that are heard and have not followed its last change yet, by name.
    pub async fn wanted_behind(&self, id: NetworkId) -> Result<Vec<String>> {
        self.fetch_all(&WANTED_BEHIND, args![id]).await?.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// The project's network of this name, made if there is none, and locked until this transaction ends.
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
        Err(StoreError::Unavailable("too many networks are being made at once".to_owned()))
    }

    /// Which file system what its cells share lies on: the one it has, or else this one from now on.
    pub async fn network_share(&mut self, id: NetworkId, shared_files: &str) -> Result<String> {
        let rows = self.fetch_all(&NETWORK_SHARE, args![id, shared_files]).await?;
        rows.first().ok_or(StoreError::Gone("network".to_owned()))?.get(0)
    }

    /// Nothing is left of what its cells shared.
    pub async fn network_unshare(&mut self, id: NetworkId) -> Result<()> {
        self.execute(&NETWORK_UNSHARE, args![id]).await.map(drop)
    }

    /// The nodes of a network, and this one, have something new to follow: these.
    pub async fn wanted_raise(&mut self, id: NetworkId, node: NodeId) -> Result<Vec<NodeId>> {
        self.fetch_all(&WANTED_RAISE_NETWORK, args![id, node]).await?.iter().map(|row| row.get(0)).collect()
    }

    /// Everybody who shares a network with this node has something new to follow: it is found elsewhere now.
    pub async fn wanted_raise_node(&mut self, node: NodeId) -> Result<()> {
        self.execute(&WANTED_RAISE_NODE, args![node]).await.map(drop)
    }

    /// The nodes with cells of a tenant that have people have something new to follow.
    pub async fn wanted_raise_people(&mut self, tenant: TenantId) -> Result<()> {
        self.execute(&WANTED_RAISE_PEOPLE, args![tenant]).await.map(drop)
    }

    /// A node's agent has followed so far.
    pub async fn wanted_applied(&mut self, node: NodeId, revision: i64) -> Result<()> {
        self.execute(&WANTED_APPLIED, args![node, revision]).await.map(drop)
    }

    /// Has the engine look at the cells that may wait for what this node has followed. Not in the transaction that says so: who
    /// works for an operation has its row first, and then has nodes follow.
    pub async fn wanted_wake(&mut self, node: NodeId, now: Timestamp) -> Result<()> {
        self.execute(&WANTED_WAKE, args![node, now]).await.map(drop)
    }

    /// Removes a project's networks; none of its cells is left.
    pub async fn network_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&NETWORK_DELETE_OF_PROJECT, args![project]).await
    }

    /// The same for all projects of a tenant.
    pub async fn network_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&NETWORK_DELETE_OF_TENANT, args![tenant]).await
    }
}
