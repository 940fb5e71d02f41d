//! Batches heartbeats into one statement; a commit per heartbeat would dominate load.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_ids::NodeId;

use super::Fleet;
use crate::Platform;

impl Fleet {
    /// Records a node's heartbeat.
    pub(super) fn hear(&self, node: NodeId) {
        self.seen.lock().insert(node);
    }

    /// Records that a node confirmed the status of its cells.
    pub(super) fn confirm(&self, node: NodeId) {
        self.confirmed.lock().insert(node);
    }

    /// Returns the time of the last failed heartbeat write.
    pub fn deaf_at(&self) -> Option<Timestamp> {
        *self.deaf_at.lock()
    }
}

impl Platform {
    /// Writes heartbeats twice per heartbeat interval, until stopped.
    pub async fn run_heartbeats(self: Arc<Self>, mut stop: tokio::sync::watch::Receiver<bool>) {
        let every = self.options.heartbeat / 2;
        while !*stop.borrow() {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                _ = stop.changed() => {}
            }
            self.flush_heartbeats().await;
        }
    }

    /// Writes pending heartbeats, and drops them on failure: a living node sends another before the next flush, and a dead
    /// one must not look alive later. The failure is recorded instead (`loss.rs`).
    async fn flush_heartbeats(&self) {
        let seen = std::mem::take(&mut *self.fleet.seen.lock());
        if seen.is_empty() {
            return;
        }
        let nodes: Vec<NodeId> = seen.into_iter().collect();
        let confirmed = std::mem::take(&mut *self.fleet.confirmed.lock());
        let confirmed: Vec<NodeId> = confirmed.into_iter().collect();
        let now = self.env.now();
        match self.store.heartbeat_write(&nodes, &confirmed, now).await {
            Ok(()) => drop(self.metrics.heartbeats.inc_by(nodes.len() as u64)),
            Err(error) => {
                tracing::warn!(%error, nodes = nodes.len(), "heartbeats could not be written");
                let mut deaf_at = self.fleet.deaf_at.lock();
                *deaf_at = Some(self.env.now());
            }
        }
    }

    pub fn heartbeat(&self) -> SignedDuration {
        SignedDuration::try_from(self.options.heartbeat).unwrap_or(SignedDuration::from_secs(10))
    }
}
