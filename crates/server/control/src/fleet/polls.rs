//! Polls waiting at this server, and their wake-ups.
//!
//! A task queued by this server wakes its node's poll at once; for tasks of other replicas one query serves all waiting
//! nodes every 150 ms. A query per poll was rejected: with a thousand nodes it is a thousand times the load for the same
//! answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_db::NodeStanding;
use muster_ids::NodeId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Platform;

/// Interval of the query for tasks.
const LOOK: Duration = Duration::from_millis(150);
/// Interval of the query for the standing of waiting nodes.
const STANDING: Duration = Duration::from_millis(500);

/// The polls of one node, normally one.
struct Waiting {
    notify: Arc<Notify>,
    /// Session of the latest poll.
    session: i64,
    /// Whether it may receive tasks.
    clean: bool,
    /// Observed revision of the node's desired state.
    revision: i64,
    count: usize,
}

#[derive(Default)]
pub(super) struct Polls {
    waiting: Mutex<HashMap<NodeId, Waiting>>,
    /// Notified when a poll begins to wait.
    entered: Notify,
}

/// A waiting poll's registration; released on drop, also when the agent disconnects.
pub(super) struct MemberGroup<'p> {
    polls: &'p Polls,
    node: NodeId,
    pub(super) notify: Arc<Notify>,
}

impl Drop for MemberGroup<'_> {
    fn drop(&mut self) {
        let mut waiting = self.polls.lock();
        if let Some(here) = waiting.get_mut(&self.node) {
            here.count -= 1;
            if here.count == 0 {
                waiting.remove(&self.node);
            }
        }
    }
}

impl Polls {
    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<NodeId, Waiting>> {
        self.waiting.lock()
    }

    pub(super) fn enter(&self, node: NodeId, standing: &NodeStanding, revision: i64) -> MemberGroup<'_> {
        let mut waiting = self.lock();
        let here = waiting.entry(node).or_insert_with(|| Waiting {
            notify: Arc::new(Notify::new()),
            session: standing.session,
            clean: standing.clean,
            revision,
            count: 0,
        });
        if here.session != standing.session {
            // The previous agent's poll is outdated.
            here.notify.notify_waiters();
        }
        (here.session, here.clean, here.revision) = (standing.session, standing.clean, revision);
        here.count += 1;
        let notify = here.notify.clone();
        drop(waiting);
        self.entered.notify_one();
        MemberGroup { polls: self, node, notify }
    }

    pub(super) fn wake(&self, node: NodeId) {
        if let Some(here) = self.lock().get(&node) {
            here.notify.notify_waiters();
        }
    }

    fn wake_for_work(&self, nodes: &[NodeId]) {
        let waiting = self.lock();
        for here in nodes.iter().filter_map(|node| waiting.get(node)).filter(|here| here.clean) {
            here.notify.notify_waiters();
        }
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.lock().keys().copied().collect()
    }

    /// Wakes polls that must not wait any longer; they determine the reason themselves.
    fn wake_outdated(&self, asked: &[NodeId], standings: &HashMap<NodeId, NodeStanding>) {
        let waiting = self.lock();
        for (node, here) in asked.iter().filter_map(|node| Some((node, waiting.get(node)?))) {
            let fine = standings.get(node).is_some_and(|standing| {
                !standing.retired
                    && !standing.unreachable
                    && standing.session == here.session
                    && standing.desired_revision <= here.revision
            });
            if !fine {
                here.notify.notify_waiters();
            }
        }
    }
}

impl Platform {
    /// Wakes polls until dropped; idles while none waits.
    pub async fn run_polls(self: Arc<Self>) {
        let polls = &self.fleet.polls;
        let mut looked = Instant::now();
        loop {
            if polls.lock().is_empty() {
                polls.entered.notified().await;
            }
            tokio::time::sleep(LOOK).await;
            match self.store.task_nodes_waiting(self.env.now()).await {
                Ok(nodes) => polls.wake_for_work(&nodes),
                Err(error) => tracing::debug!(%error, "waiting tasks could not be read; retrying"),
            }
            if looked.elapsed() < STANDING {
                continue;
            }
            looked = Instant::now();
            let asked = polls.nodes();
            match self.store.node_standings(&asked).await {
                Ok(standings) => polls.wake_outdated(&asked, &standings.into_iter().collect()),
                Err(error) => tracing::debug!(%error, "the state of nodes could not be read; retrying"),
            }
        }
    }
}
