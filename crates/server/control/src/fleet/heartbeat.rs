//! Who was heard, written down for all nodes at once: a commit for each heartbeat would be most of a large fleet's load.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use muster_ids::NodeId;

use super::Fleet;
use crate::Platform;

impl Fleet {
    /// Notes that a node was heard.
    pub(super) fn hear(&self, node: NodeId) {
        self.seen.lock().expect("no holder of this lock can panic").insert(node);
    }

    /// Notes that a node confirmed the status of its cells.
    pub(super) fn confirm(&self, node: NodeId) {
        self.confirmed.lock().expect("no holder of this lock can panic").insert(node);
    }

    /// When it last could not be written down who was heard.
    pub(super) fn deaf_at(&self) -> Option<Timestamp> {
        *self.deaf_at.lock().expect("no holder of this lock can panic")
    }
}

impl Platform {
    /// Writes heartbeats down twice in a heartbeat's time, until told to stop.
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

    /// What cannot be written is dropped: who lives is heard again before the next time, and who does not must not look
    /// alive later. That nobody could be heard is kept in mind instead (`loss.rs`).
    async fn flush_heartbeats(&self) {
        let seen = std::mem::take(&mut *self.fleet.seen.lock().expect("no holder of this lock can panic"));
        if seen.is_empty() {
            return;
        }
        let nodes: Vec<NodeId> = seen.into_iter().collect();
        let confirmed =
            std::mem::take(&mut *self.fleet.confirmed.lock().expect("no holder of this lock can panic"));
        let confirmed: Vec<NodeId> = confirmed.into_iter().collect();
        let now = self.world.now();
        match self.store.heartbeat_write(&nodes, &confirmed, now).await {
            Ok(()) => drop(self.metrics.heartbeats.inc_by(nodes.len() as u64)),
            Err(error) => {
                tracing::warn!(%error, nodes = nodes.len(), "heartbeats could not be written down");
                let mut deaf_at = self.fleet.deaf_at.lock().expect("no holder of this lock can panic");
                *deaf_at = Some(self.world.now());
            }
        }
    }

    pub(crate) fn heartbeat(&self) -> SignedDuration {
        SignedDuration::try_from(self.options.heartbeat).unwrap_or(SignedDuration::from_secs(10))
    }
}
