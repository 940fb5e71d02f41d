//! Nodes: joining, heartbeats, approval, and the facts that determine their state.

use jiff::Timestamp;
use muster_ids::{NodeId, WitnessId};
use muster_model::node::{Capacity, Node, NodeState};
use muster_model::{LabelSelector, Labels};
use serde_json::Value as Json;

use crate::sql::{Row, Value, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, name, labels, state, inventory, inventory_digest, approved_inventory, approved_digest, approved_at, cordoned,
         draining, unreachable_since, retired_at, retired_witness_id, session, agent_version, certificate_until,
         (SELECT seen_at FROM node_heartbeats h WHERE h.node_id = nodes.id), gpus_total, cpus_total, memory_mb_total,
         disk_mb_total, gpus_free, cpus_free, memory_mb_free, disk_mb_free, holders, created_at, updated_at, version, shared_files,
         address, reported_address, peer_address"
    };
}

statements! {
    NODE_JOIN = both(
        "INSERT INTO nodes (id, name, labels, inventory, inventory_digest, cordoned, draining, session, session_clean, agent_version,
            certificate_until, key_sha256, gpus_total, gpus_free, cpus_total, cpus_free, memory_mb_total, memory_mb_free, disk_mb_total,
            disk_mb_free, holders, exclusive, fit, created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, $6, $6, 0, $6, $7, $8, $10, 0, 0, 0, 0, 0, 0, 0, 0, 0, $6, 0, $9, $9, 1)");
    NODE_GET = both(concat!("SELECT ", columns!(), " FROM nodes WHERE id = $1"));
    NODE_BY_NAME = both(concat!("SELECT ", columns!(), " FROM nodes WHERE name = $1 AND retired_at IS NULL"));
    // $1 after, $2 limit, $3 and $4 labels, $5 state.
    NODE_LIST = pair(
        concat!("SELECT ", columns!(), " FROM nodes WHERE id > $1 AND ($5::text IS NULL OR state = $5) AND ",
            labels_match!(pg "$3" "$4"), " ORDER BY id LIMIT $2"),
        concat!("SELECT ", columns!(), " FROM nodes WHERE id > $1 AND ($5 IS NULL OR state = $5) AND ",
            labels_match!(sqlite "$3" "$4"), " ORDER BY id LIMIT $2"));
    // Includes whether a task is queued: a poll that finds none costs one read and no commit.
    NODE_STANDING = both(
        "SELECT id, session, retired_at, unreachable_since, session_clean,
            EXISTS (SELECT 1 FROM node_tasks t WHERE t.node_id = nodes.id AND t.state = 'queued' AND t.expires_at > $2),
            key_sha256, previous_key_sha256,
            COALESCE((SELECT w.desired_revision FROM node_revisions w WHERE w.node_id = nodes.id), 0),
            COALESCE((SELECT w.observed_revision FROM node_revisions w WHERE w.node_id = nodes.id), 0)
         FROM nodes WHERE id = $1");
    // For all nodes with an open poll, in one read.
    NODE_STANDINGS = pair(
        "SELECT id, session, retired_at, unreachable_since, session_clean, false, key_sha256, previous_key_sha256,
            COALESCE(w.desired_revision, 0), COALESCE(w.observed_revision, 0)
         FROM nodes LEFT JOIN node_revisions w ON w.node_id = id WHERE id = ANY ($1::uuid[])",
        "SELECT id, session, retired_at, unreachable_since, session_clean, 0, key_sha256, previous_key_sha256,
            COALESCE(w.desired_revision, 0), COALESCE(w.observed_revision, 0)
         FROM nodes LEFT JOIN node_revisions w ON w.node_id = id WHERE id IN (SELECT value FROM json_each($1))");
    NODE_IN_SESSION = both("SELECT id FROM nodes WHERE id = $1 AND session = $2 AND retired_at IS NULL");
    NODE_HELLO = both(
        "UPDATE nodes SET session = session + 1, session_clean = $6, agent_version = $2, inventory = $3,
            inventory_digest = $4, updated_at = $5, version = version + CASE WHEN inventory_digest = $4 THEN 0 ELSE 1 END
         WHERE id = $1 AND retired_at IS NULL RETURNING session");
    NODE_ADDRESS = both(
        "UPDATE nodes SET address = $2 WHERE id = $1 AND (address IS NULL OR address <> $2) AND retired_at IS NULL");
    NODE_REPORT_ADDRESS = both(
        "UPDATE nodes SET reported_address = $2, peer_address = $3,
            version = version + CASE WHEN reported_address IS NOT DISTINCT FROM $2 THEN 0 ELSE 1 END
         WHERE id = $1 AND retired_at IS NULL
            AND (reported_address IS DISTINCT FROM $2 OR peer_address IS DISTINCT FROM $3)");
    NODE_ADOPT_ADDRESS = both(
        "UPDATE nodes SET address = $2
         WHERE id = $1 AND address IS NULL AND approved_at IS NOT NULL AND retired_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM nodes other WHERE other.address = $2 AND other.retired_at IS NULL)");
    NODE_WITH_ADDRESS = both("SELECT id FROM nodes WHERE address = $1 AND retired_at IS NULL");
    NODE_SHARED_FILES = both(
        "UPDATE nodes SET shared_files = $2 WHERE id = $1 AND shared_files IS DISTINCT FROM $2 AND retired_at IS NULL");
    NODE_SHARING = both(
        "SELECT id FROM nodes WHERE shared_files = $1 AND unreachable_since IS NULL AND retired_at IS NULL ORDER BY id LIMIT 1");
    NODE_INVENTORY = both(
        "UPDATE nodes SET inventory = $3, inventory_digest = $4, updated_at = $5,
            version = version + CASE WHEN inventory_digest = $4 THEN 0 ELSE 1 END
         WHERE id = $1 AND session = $2 AND retired_at IS NULL");
    NODE_BACK = both(
        "UPDATE nodes SET unreachable_since = $2, updated_at = $3, version = version + 1
         WHERE id = $1 AND unreachable_since IS NOT NULL");
    NODE_LOST = both(
        "UPDATE nodes SET unreachable_since = $2, updated_at = $2, version = version + 1
         WHERE id = $1 AND unreachable_since IS NULL AND retired_at IS NULL");
    // Accepts the current and the previous key: the response to a renewal may be lost any number of times.
    NODE_RENEWED = both(
        "UPDATE nodes SET certificate_until = $2, key_sha256 = $3, previous_key_sha256 = $4
         WHERE id = $1 AND retired_at IS NULL AND (key_sha256 = $5 OR previous_key_sha256 = $5)");
    NODE_SETTLED = both(
        "UPDATE nodes SET previous_key_sha256 = NULL
         WHERE id = $1 AND key_sha256 = $2 AND previous_key_sha256 IS NOT NULL");
    // The previous holder of the node's identity is locked out immediately, even during a poll.
    NODE_REJOIN = both(
        "UPDATE nodes SET certificate_until = $2, key_sha256 = $3, previous_key_sha256 = NULL, session = session + 1,
            session_clean = $4
         WHERE id = $1 AND retired_at IS NULL RETURNING name");
    NODE_UPDATE = both(
        "UPDATE nodes SET labels = $2, cordoned = $3, draining = $4, updated_at = $5, version = version + 1
         WHERE id = $1 AND version = $6 AND retired_at IS NULL");
    // A draining node cannot be uncordoned before the drain ends: the engine would drain new allocations too.
    NODE_SET_CORDONED = both(
        "UPDATE nodes SET cordoned = $2, updated_at = $3, version = version + 1
         WHERE id = $1 AND retired_at IS NULL AND cordoned <> $2 AND ($2 OR NOT draining)");
    NODE_SET_DRAINING = both(
        "UPDATE nodes SET draining = $2, cordoned = $3, updated_at = $4, version = version + 1
         WHERE id = $1 AND retired_at IS NULL");
    NODE_APPROVE = both(
        "UPDATE nodes SET approved_inventory = inventory, approved_digest = inventory_digest, approved_at = $2,
            cpus_free = cpus_free + $3 - cpus_total, cpus_total = $3,
            memory_mb_free = memory_mb_free + $4 - memory_mb_total, memory_mb_total = $4,
            disk_mb_free = disk_mb_free + $5 - disk_mb_total, disk_mb_total = $5,
            updated_at = $2, version = version + 1
         WHERE id = $1 AND version = $6 AND inventory_digest = $7 AND retired_at IS NULL");
    NODE_RETIRE = both(
        "UPDATE nodes SET retired_at = $2, retired_witness_id = $3, draining = $4, updated_at = $2, version = version + 1
         WHERE id = $1 AND retired_at IS NULL AND holders = 0");
    SLOT_RETIRE_OF_NODE = both(
        "UPDATE slots SET state = 'retired', reason = $3, quarantined_for = $4, updated_at = $2, version = version + 1
         WHERE node_id = $1 AND state <> 'retired'");
    // PostgreSQL sums BIGINT as NUMERIC, which `Value` does not support.
    NODE_COUNT = both(
        "SELECT state, COUNT(*), CAST(SUM(gpus_total) AS BIGINT), CAST(SUM(gpus_free) AS BIGINT) FROM nodes
         GROUP BY state ORDER BY state");
    // In id order: several replicas receive an agent's heartbeats, and locking the same rows in different orders would
    // deadlock.
    HEARTBEAT_UPSERT = pair(
        "INSERT INTO node_heartbeats (node_id, seen_at) SELECT id, $2 FROM unnest($1::uuid[]) AS seen (id) ORDER BY id
         ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at",
        "INSERT INTO node_heartbeats (node_id, seen_at) SELECT value, $2 FROM json_each($1) WHERE true
         ON CONFLICT (node_id) DO UPDATE SET seen_at = excluded.seen_at");
    HEARTBEAT_CONFIRM = pair(
        "UPDATE node_heartbeats SET observed_at = $2 WHERE node_id IN (SELECT unnest($1::uuid[]))",
        "UPDATE node_heartbeats SET observed_at = $2 WHERE node_id IN (SELECT value FROM json_each($1))");
    // Nodes that are not retired, with their latest heartbeat.
    HEARTBEAT_LIST = both(
        "SELECT n.id, n.name, h.seen_at, n.unreachable_since, h.observed_at FROM nodes n LEFT JOIN node_heartbeats h ON h.node_id = n.id
         WHERE n.retired_at IS NULL ORDER BY n.id");
}

fn node(row: &Row) -> Result<Node> {
    let capacity = |from: usize| -> Result<Capacity> {
        Ok(Capacity {
            gpus: row.get(from)?,
            cpus: row.get(from + 1)?,
            memory_mb: row.get(from + 2)?,
            disk_mb: row.get(from + 3)?,
        })
    };
    Ok(Node {
        id: row.get(0)?,
        name: row.get(1)?,
        labels: row.get(2)?,
        state: NodeState::parse(&row.get::<String>(3)?).ok_or(StoreError::Corrupt("a state of a node"))?,
        inventory: row.get(4)?,
        inventory_digest: row.get(5)?,
        approved_inventory: row.get(6)?,
        approved_digest: row.get(7)?,
        approved_at: row.get(8)?,
        cordoned: row.get(9)?,
        draining: row.get(10)?,
        unreachable_since: row.get(11)?,
        retired_at: row.get(12)?,
        retired_witness_id: row.get(13)?,
        session: row.get(14)?,
        agent_version: row.get(15)?,
        certificate_until: row.get(16)?,
        seen_at: row.get(17)?,
        total: capacity(18)?,
        free: capacity(22)?,
        holders: row.get(26)?,
        created_at: row.get(27)?,
        updated_at: row.get(28)?,
        version: row.get(29)?,
        shared_files: row.get(30)?,
        address: row.get(31)?,
        reported_address: row.get(32)?,
        peer_address: row.get(33)?,
    })
}

/// SHA-256 of a public key in its certificate encoding.
pub type KeyHash = [u8; 32];

/// A node that joins.
#[derive(Debug, Clone)]
pub struct Joining {
    /// Its id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Its hardware inventory.
    pub inventory: Json,
    /// The digest of the inventory.
    pub inventory_digest: String,
    /// The agent's version.
    pub agent_version: String,
    /// Expiry of its first certificate.
    pub certificate_until: Timestamp,
    /// Time of the join.
    pub at: Timestamp,
}

/// The facts that decide whether requests of a node's agent are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeStanding {
    /// The current session.
    pub session: i64,
    /// Whether the node is retired.
    pub retired: bool,
    /// Whether it counts as unreachable.
    pub unreachable: bool,
    /// Whether the agent of this session reported a node without stale copies.
    pub clean: bool,
    /// Whether a task is queued for it.
    pub waiting: bool,
    /// Hash of the key of its certificate. Without one, no agent is accepted.
    pub key: Option<KeyHash>,
    /// Hash of the previous key, until the new one is used.
    pub previous_key: Option<KeyHash>,
    /// The desired revision of its networks and keys; 0 if it has none.
    pub desired_revision: i64,
    /// The revision that its agent has applied.
    pub observed_revision: i64,
}

fn standing(row: &Row) -> Result<NodeStanding> {
    Ok(NodeStanding {
        session: row.get(1)?,
        retired: row.get::<Option<Timestamp>>(2)?.is_some(),
        unreachable: row.get::<Option<Timestamp>>(3)?.is_some(),
        clean: row.get(4)?,
        waiting: row.get(5)?,
        key: row.get(6)?,
        previous_key: row.get(7)?,
        desired_revision: row.get(8)?,
        observed_revision: row.get(9)?,
    })
}

fn uuids(nodes: &[NodeId], postgres: bool) -> Value {
    use muster_ids::TypedId as _;
    match postgres {
        true => Value::Uuids(nodes.iter().map(|id| Some(id.uuid())).collect()),
        false => Value::Json(Some(nodes.iter().map(|id| Json::from(id.uuid().to_string())).collect())),
    }
}

/// The latest heartbeat of a node.
#[derive(Debug, Clone)]
pub struct NodeHeartbeat {
    /// The node.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// Time of the heartbeat; absent if the node never sent one.
    pub seen_at: Option<Timestamp>,
    /// Start of the time for which it counts as unreachable.
    pub unreachable_since: Option<Timestamp>,
    /// Time of the agent's latest confirmation of its cells' status.
    pub confirmed_at: Option<Timestamp>,
}

/// The number of nodes and GPUs in a state.
#[derive(Debug, Clone)]
pub struct NodeCount {
    /// The state's name.
    pub state: String,
    /// Nodes.
    pub nodes: i64,
    /// Total GPUs.
    pub gpus: i64,
    /// Free GPUs.
    pub gpus_free: i64,
}

impl Store {
    /// Returns a reachable node that has this shared file system.
    pub async fn node_sharing(&self, shared_files: &str) -> Result<Option<NodeId>> {
        self.fetch_optional(&NODE_SHARING, args![shared_files]).await?.map(|row| row.get(0)).transpose()
    }

    /// Returns the node with this id.
    pub async fn node_lookup(&self, id: NodeId) -> Result<Option<Node>> {
        self.fetch_optional(&NODE_GET, args![id]).await?.as_ref().map(node).transpose()
    }

    /// Returns the node of this name that is not retired.
    pub async fn node_by_name(&self, name: &str) -> Result<Option<Node>> {
        self.fetch_optional(&NODE_BY_NAME, args![name]).await?.as_ref().map(node).transpose()
    }

    /// Returns nodes in the order in which they joined.
    pub async fn node_list(
        &self,
        page: Page,
        labels: &LabelSelector,
        state: Option<NodeState>,
    ) -> Result<Vec<Node>> {
        let state = state.map(NodeState::as_str);
        let args = args![page.after, page.size, labels.equal_json(), labels.not_equal_json(), state];
        self.fetch_all(&NODE_LIST, args).await?.iter().map(node).collect()
    }

    /// Returns whether a node's agent is accepted, and whether a task is queued for it.
    pub async fn node_standing(&self, id: NodeId, now: Timestamp) -> Result<Option<NodeStanding>> {
        self.fetch_optional(&NODE_STANDING, args![id, now]).await?.as_ref().map(standing).transpose()
    }

    /// Does the same for several nodes at once, without the queued tasks.
    pub async fn node_standings(&self, nodes: &[NodeId]) -> Result<Vec<(NodeId, NodeStanding)>> {
        let rows = self.fetch_all(&NODE_STANDINGS, vec![uuids(nodes, self.kind() == "postgres")]).await?;
        rows.iter().map(|row| Ok((row.get(0)?, standing(row)?))).collect()
    }

    /// Returns the latest heartbeat of each node.
    pub async fn heartbeat_list(&self) -> Result<Vec<NodeHeartbeat>> {
        let rows = self.fetch_all(&HEARTBEAT_LIST, args![]).await?;
        rows.iter()
            .map(|row| {
                Ok(NodeHeartbeat {
                    id: row.get(0)?,
                    name: row.get(1)?,
                    seen_at: row.get(2)?,
                    unreachable_since: row.get(3)?,
                    confirmed_at: row.get(4)?,
                })
            })
            .collect()
    }

    /// Batches heartbeats, and the confirmations of cell status among them, into one commit.
    pub async fn heartbeat_write(&self, nodes: &[NodeId], confirmed: &[NodeId], at: Timestamp) -> Result<()> {
        let mut tx = self.begin().await?;
        tx.heartbeat_note(nodes, at).await?;
        if !confirmed.is_empty() {
            let ids = tx.node_ids(confirmed);
            tx.execute(&HEARTBEAT_CONFIRM, vec![ids, Value::from(at)]).await?;
        }
        tx.commit().await
    }

    /// Returns the number of nodes and GPUs by state.
    pub async fn node_count(&self) -> Result<Vec<NodeCount>> {
        let rows = self.fetch_all(&NODE_COUNT, args![]).await?;
        rows.iter()
            .map(|row| {
                Ok(NodeCount {
                    state: row.get(0)?,
                    nodes: row.get(1)?,
                    gpus: row.get(2)?,
                    gpus_free: row.get(3)?,
                })
            })
            .collect()
    }
}

impl Tx {
    /// Adds a node with a certificate for this key.
    pub async fn node_join_with(&mut self, joining: &Joining, key: Option<KeyHash>) -> Result<()> {
        let args = args![
            joining.id,
            &joining.name,
            &joining.labels,
            joining.inventory.clone(),
            &joining.inventory_digest,
            false,
            &joining.agent_version,
            joining.certificate_until,
            joining.at,
            key
        ];
        self.execute(&NODE_JOIN, args).await.map(drop)
    }

    /// Starts a new session for a node's agent and returns its number. `clean` means that there are no stale copies on the
    /// node. Returns `Fenced` for a retired node.
    pub async fn node_hello(
        &mut self,
        id: NodeId,
        agent_version: &str,
        inventory: Json,
        digest: &str,
        clean: bool,
        at: Timestamp,
    ) -> Result<i64> {
        let args = args![id, agent_version, inventory, digest, at, clean];
        let rows = self.fetch_all(&NODE_HELLO, args).await?;
        rows.first().ok_or(StoreError::Fenced)?.get(0)
    }

    /// Records the address that an agent reports and the peer address of its connection. Neither is used before an operator
    /// approves it.
    pub async fn node_report_address(
        &mut self,
        id: NodeId,
        reported: &str,
        peer: Option<&str>,
    ) -> Result<()> {
        self.execute(&NODE_REPORT_ADDRESS, args![id, reported, peer]).await.map(drop)
    }

    /// Sets the first address of a node that was approved without one, unless another node has it; reports whether it was
    /// set.
    pub async fn node_adopt_address(&mut self, id: NodeId, address: &str) -> Result<bool> {
        self.execute(&NODE_ADOPT_ADDRESS, args![id, address]).await.map(|changed| changed > 0)
    }

    /// Returns the node with this address.
    pub async fn node_with_address(&mut self, address: &str) -> Result<Option<NodeId>> {
        let rows = self.fetch_all(&NODE_WITH_ADDRESS, args![address]).await?;
        rows.first().map(|row| row.get(0)).transpose()
    }

    /// Sets the address at which other nodes reach a node; reports whether it changed. Returns `Conflict` if another node
    /// has it.
    pub async fn node_address(&mut self, id: NodeId, address: &str) -> Result<bool> {
        self.execute(&NODE_ADDRESS, args![id, address]).await.map(|changed| changed > 0)
    }

    /// Sets the file system that a node shares with others, if any.
    pub async fn node_shared_files(&mut self, id: NodeId, shared_files: Option<&str>) -> Result<()> {
        self.execute(&NODE_SHARED_FILES, args![id, shared_files]).await.map(drop)
    }

    /// Updates a node's inventory from the agent of this session; returns `Fenced` for another session.
    pub async fn node_inventory(
        &mut self,
        id: NodeId,
        session: i64,
        inventory: Json,
        digest: &str,
        at: Timestamp,
    ) -> Result<()> {
        self.execute_one(&NODE_INVENTORY, args![id, session, inventory, digest, at], StoreError::Fenced).await
    }

    /// Records heartbeats of these nodes.
    pub async fn heartbeat_note(&mut self, nodes: &[NodeId], at: Timestamp) -> Result<()> {
        let ids = self.node_ids(nodes);
        self.execute(&HEARTBEAT_UPSERT, vec![ids, Value::from(at)]).await.map(drop)
    }

    fn node_ids(&self, nodes: &[NodeId]) -> Value {
        use muster_ids::TypedId as _;
        match self.is_postgres() {
            true => Value::Uuids(nodes.iter().map(|id| Some(id.uuid())).collect()),
            false => Value::Json(Some(nodes.iter().map(|id| Json::from(id.uuid().to_string())).collect())),
        }
    }

    /// Marks a node as reachable; reports whether it was unreachable.
    pub async fn node_back(&mut self, id: NodeId, at: Timestamp) -> Result<bool> {
        Ok(self.execute(&NODE_BACK, args![id, None::<Timestamp>, at]).await? == 1)
    }

    /// Marks a node as unreachable; reports whether it was reachable.
    pub async fn node_lost(&mut self, id: NodeId, at: Timestamp) -> Result<bool> {
        Ok(self.execute(&NODE_LOST, args![id, at]).await? == 1)
    }

    /// Records a new certificate for `key`, requested with one for `asked_with`, which stays valid until the new one is
    /// used. Returns `Fenced` if `asked_with` was replaced meanwhile.
    pub async fn node_renewed(
        &mut self,
        id: NodeId,
        asked_with: KeyHash,
        key: KeyHash,
        until: Timestamp,
    ) -> Result<()> {
        let previous = Some(asked_with).filter(|previous| *previous != key);
        self.execute_one(&NODE_RENEWED, args![id, until, key, previous, asked_with], StoreError::Fenced).await
    }

    /// Invalidates the previous certificate, because the new one was used.
    pub async fn node_settled(&mut self, id: NodeId, key: KeyHash) -> Result<()> {
        self.execute(&NODE_SETTLED, args![id, key]).await.map(drop)
    }

    /// Gives an existing node a new certificate and invalidates all earlier ones; returns the node's name. Returns `Gone`
    /// for a retired node.
    pub async fn node_rejoin(&mut self, id: NodeId, key: KeyHash, until: Timestamp) -> Result<String> {
        let rows = self.fetch_all(&NODE_REJOIN, args![id, until, key, false]).await?;
        rows.first().ok_or(StoreError::Gone("node".to_owned()))?.get(0)
    }

    /// Verifies that this session is still current; otherwise returns `Fenced`. Callers first lock the rows that a newer
    /// session would take over, so the result holds until the transaction ends.
    pub async fn node_in_session(&mut self, id: NodeId, session: i64) -> Result<()> {
        let current = self.fetch_all(&NODE_IN_SESSION, args![id, session]).await?;
        if current.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// Updates labels and operator settings; `node.version` is already the new one.
    pub async fn node_update(&mut self, node: &Node) -> Result<()> {
        let args =
            args![node.id, &node.labels, node.cordoned, node.draining, node.updated_at, node.version - 1];
        self.execute_one(&NODE_UPDATE, args, StoreError::Stale).await
    }

    /// Cordons or uncordons a node; reports whether anything changed. A draining node is not uncordoned.
    pub async fn node_set_cordoned(&mut self, id: NodeId, cordoned: bool, at: Timestamp) -> Result<bool> {
        Ok(self.execute(&NODE_SET_CORDONED, args![id, cordoned, at]).await? == 1)
    }

    /// Returns a node as read by this transaction.
    pub async fn node_of(&mut self, id: NodeId) -> Result<Node> {
        let rows = self.fetch_all(&NODE_GET, args![id]).await?;
        node(rows.first().ok_or(StoreError::Gone("node".to_owned()))?)
    }

    /// Marks the start or end of a node's drain.
    pub async fn node_set_draining(
        &mut self,
        id: NodeId,
        draining: bool,
        cordoned: bool,
        at: Timestamp,
    ) -> Result<()> {
        self.execute_one(&NODE_SET_DRAINING, args![id, draining, cordoned, at], StoreError::Fenced).await
    }

    /// Approves the hardware with this digest. Returns `Stale` if it changed since, `Conflict` if allocations hold more than
    /// would be left.
    pub async fn node_approve(
        &mut self,
        id: NodeId,
        total: Capacity,
        digest: &str,
        version: i64,
        at: Timestamp,
    ) -> Result<()> {
        let args = args![id, at, total.cpus, total.memory_mb, total.disk_mb, version, digest];
        self.execute_one(&NODE_APPROVE, args, StoreError::Stale).await
    }

    /// Retires a node. Returns `Conflict` if allocations still hold something of it.
    pub async fn node_retire(&mut self, id: NodeId, witness: WitnessId, at: Timestamp) -> Result<()> {
        let holds = StoreError::Conflict("the node still holds resources".to_owned());
        self.execute_one(&NODE_RETIRE, args![id, at, witness, false], holds).await?;
        self.execute(&SLOT_RETIRE_OF_NODE, args![id, at, None::<String>, None::<uuid::Uuid>]).await?;
        self.node_recount(id).await
    }
}
