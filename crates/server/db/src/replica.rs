//! The servers that share the database.

use jiff::Timestamp;
use muster_ids::ReplicaId;

use crate::sql::{args, both, statements};
use crate::{Result, Store};

statements! {
    REPLICA_SEEN = both(
        "INSERT INTO replicas (id, address, version, started_at, seen_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (id) DO UPDATE SET seen_at = $5");
    REPLICA_LIST = both("SELECT id, address, version, started_at, seen_at FROM replicas WHERE seen_at > $1 ORDER BY id");
    REPLICA_GONE = both("DELETE FROM replicas WHERE id = $1 OR seen_at < $2");
}

/// A running server.
#[derive(Debug, Clone)]
pub struct Replica {
    /// Its id; new at every start.
    pub id: ReplicaId,
    /// Its listen address.
    pub address: String,
    /// Its version.
    pub version: String,
    /// Start time.
    pub started_at: Timestamp,
    /// Time of its latest heartbeat.
    pub seen_at: Timestamp,
}

impl Store {
    /// Records a heartbeat of a server.
    pub async fn replica_seen(&self, replica: &Replica) -> Result<()> {
        let mut tx = self.begin().await?;
        let args = args![replica.id, &replica.address, &replica.version, replica.started_at, replica.seen_at];
        tx.execute(&REPLICA_SEEN, args).await?;
        tx.commit().await
    }

    /// Returns the servers with a heartbeat since `since`.
    pub async fn replica_list(&self, since: Timestamp) -> Result<Vec<Replica>> {
        let rows = self.fetch_all(&REPLICA_LIST, args![since]).await?;
        rows.iter()
            .map(|row| {
                Ok(Replica {
                    id: row.get(0)?,
                    address: row.get(1)?,
                    version: row.get(2)?,
                    started_at: row.get(3)?,
                    seen_at: row.get(4)?,
                })
            })
            .collect()
    }

    /// Removes a server that stops, and those without a heartbeat since `silent_since`.
    pub async fn replica_gone(&self, id: ReplicaId, silent_since: Timestamp) -> Result<()> {
        let mut tx = self.begin().await?;
        tx.execute(&REPLICA_GONE, args![id, silent_since]).await?;
        tx.commit().await
    }
}
