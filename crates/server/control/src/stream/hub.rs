//! Streams waiting at this server for a node's agent to join, and stream counts per tenant.

use std::collections::HashMap;
use std::sync::Arc;

use muster_ids::{NodeId, StreamId, TenantId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::end::End;
use crate::Platform;

struct Waiting {
    /// The only node with permission to join.
    node: NodeId,
    come: oneshot::Sender<End>,
}

/// Streams of a server, in memory only: a stream does not outlive its server.
#[derive(Default)]
pub struct Streams {
    waiting: Mutex<HashMap<StreamId, Waiting>>,
    counts: Mutex<HashMap<TenantId, u32>>,
}

impl Streams {
    /// Returns the sender of a waiting stream to the agent of its node, once; other nodes get none.
    pub fn take(&self, stream: StreamId, node: NodeId) -> Option<oneshot::Sender<End>> {
        let mut waiting = self.waiting.lock();
        waiting.get(&stream).filter(|waiting| waiting.node == node)?;
        waiting.remove(&stream).map(|waiting| waiting.come)
    }

    fn counts(&self) -> parking_lot::MutexGuard<'_, HashMap<TenantId, u32>> {
        self.counts.lock()
    }
}

/// A stream's registration at this server: counted for its tenant, and waiting until the agent joins.
pub struct MemberGroup {
    platform: Arc<Platform>,
    tenant: TenantId,
    stream: StreamId,
    pub(super) comes: oneshot::Receiver<End>,
}

impl MemberGroup {
    /// Registers a stream; returns none when the tenant has reached its limit.
    pub(super) fn take(
        platform: &Arc<Platform>,
        tenant: TenantId,
        stream: StreamId,
        node: NodeId,
    ) -> Option<Self> {
        let mut counts = platform.streams.counts();
        let count = counts.entry(tenant).or_default();
        if *count >= platform.options.streams_per_tenant {
            return None;
        }
        *count += 1;
        drop(counts);
        platform.metrics.streams.inc();
        let (come, comes) = oneshot::channel();
        let waiting = Waiting { node, come };
        platform.streams.waiting.lock().insert(stream, waiting);
        Some(Self { platform: platform.clone(), tenant, stream, comes })
    }
}

impl Drop for MemberGroup {
    fn drop(&mut self) {
        let streams = &self.platform.streams;
        streams.waiting.lock().remove(&self.stream);
        let mut counts = streams.counts();
        if let Some(count) = counts.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.tenant);
            }
        }
        self.platform.metrics.streams.dec();
    }
}
