//! Who waits at this server for a node's agent to join a stream, and how many streams a tenant has here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use muster_ids::{NodeId, StreamId, TenantId};
use tokio::sync::oneshot;

use super::end::End;
use crate::Platform;

struct Waiting {
    /// Whose agent alone may join.
    node: NodeId,
    come: oneshot::Sender<End>,
}

/// The streams of a server. All of it is in memory: a stream does not outlive the server that carries it.
#[derive(Default)]
pub struct Streams {
    waiting: Mutex<HashMap<StreamId, Waiting>>,
    counts: Mutex<HashMap<TenantId, u32>>,
}

impl Streams {
    /// The place of whoever waits for this stream, for the agent of its node. It is given once; to anybody else nobody waits.
    pub fn take(&self, stream: StreamId, node: NodeId) -> Option<oneshot::Sender<End>> {
        let mut waiting = self.waiting.lock().expect("no holder of this lock can panic");
        waiting.get(&stream).filter(|waiting| waiting.node == node)?;
        waiting.remove(&stream).map(|waiting| waiting.come)
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<TenantId, u32>> {
        self.counts.lock().expect("no holder of this lock can panic")
    }
}

/// A stream's place at this server: counted for its tenant, and, until the agent has come, waited for.
pub struct Seat {
    platform: Arc<Platform>,
    tenant: TenantId,
    stream: StreamId,
    pub(super) comes: oneshot::Receiver<End>,
}

impl Seat {
    /// Takes a place; none when the tenant has as many as it may.
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
        platform.streams.waiting.lock().expect("no holder of this lock can panic").insert(stream, waiting);
        Some(Self { platform: platform.clone(), tenant, stream, comes })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let streams = &self.platform.streams;
        streams.waiting.lock().expect("no holder of this lock can panic").remove(&self.stream);
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
