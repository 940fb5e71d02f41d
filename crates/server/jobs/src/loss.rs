//! Detection of lost nodes. A mistake here declares healthy machines unreachable, so the server suspects itself first.
//!
//! The rules, implemented by `verdicts`:
//! - A node is lost after three missed heartbeats. Its members are not considered dead: the node is only unreachable.
//! - Silence counts only from when heartbeats could have been received: from the start of this server, from acquiring the
//!   lease, and from the last time that the database failed, heartbeats could not be written or this loop stalled. So no
//!   node is declared lost within three heartbeats of any of these.
//! - If more than a fifth of the nodes, and more than two, would be lost at once, the server suspects itself: it declares
//!   none of them lost and alerts the operators. Each round evaluates this again. After ten more heartbeats of the same
//!   silence the loss is real, whatever its cause, and the nodes that were silent that long are lost.
//!
//! A node returns with a hello, because its contents must be verified first.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_db::{Lease, NodeHeartbeat, StoreError};
use muster_ids::NodeId;
use muster_model::audit::{Actor, Target};
use muster_model::event::EventType;
use serde_json::json;

use muster_control::Platform;
use muster_control::fleet::tell;

/// Number of missed heartbeats after which a node is lost.
const SILENCE: i32 = 3;
/// Number of missed heartbeats after which a node is lost even in a mass loss.
const SILENCE_OF_MANY: i32 = SILENCE + 10;
/// Maximum number of nodes declared lost in one transaction; the others follow a few seconds later.
const AT_ONCE: usize = 500;

/// Result of evaluating the nodes' silence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LossDecision {
    /// Lost nodes.
    pub lost: Vec<NodeId>,
    /// Number of silent nodes that are not declared lost, because the server suspects itself.
    pub presumed_ours: Option<usize>,
}

/// Evaluates the silence of nodes. Pure; `good_since` is the time since which heartbeats could be received.
pub fn verdicts(
    heard: &[NodeHeartbeat],
    now: Timestamp,
    good_since: Timestamp,
    heartbeat: SignedDuration,
) -> LossDecision {
    let silence =
        |node: &NodeHeartbeat| now.duration_since(node.seen_at.map_or(good_since, |at| at.max(good_since)));
    let present: Vec<&NodeHeartbeat> = heard.iter().filter(|node| node.unreachable_since.is_none()).collect();
    let silent_for = |heartbeats: i32| {
        let limit = heartbeat * heartbeats;
        present.iter().filter(move |node| silence(node) >= limit).map(|node| node.id).collect::<Vec<_>>()
    };
    let silent = silent_for(SILENCE);
    if silent.len() <= 2 || silent.len() * 5 <= present.len() {
        return LossDecision { lost: silent, presumed_ours: None };
    }
    let lost = silent_for(SILENCE_OF_MANY);
    let presumed_ours = Some(silent.len() - lost.len()).filter(|count| *count > 0);
    LossDecision { lost, presumed_ours }
}

struct Watch {
    platform: Arc<Platform>,
    lease: Option<Lease>,
    good_since: Timestamp,
    looked_at: Timestamp,
    /// Time of the last alert about a suspected mass loss.
    told_at: Option<Timestamp>,
    /// Nodes that send heartbeats without confirming the status of their cells.
    unconfirmed: HashSet<NodeId>,
}

/// Detects lost nodes until stopped, on one replica at a time.
pub async fn detect_loss(platform: Arc<Platform>, mut stop: tokio::sync::watch::Receiver<bool>) {
    let now = platform.env.now();
    let every = platform.options.heartbeat / 2;
    let mut watch = Watch {
        platform: platform.clone(),
        lease: None,
        good_since: now,
        looked_at: now,
        told_at: None,
        unconfirmed: HashSet::new(),
    };
    while !*stop.borrow() {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = stop.changed() => break,
        }
        if let Err(error) = watch.round(every).await {
            watch.good_since = platform.env.now();
            if !matches!(error, StoreError::Fenced) {
                tracing::warn!(%error, "the check for lost nodes is delayed until heartbeats can arrive");
            }
            watch.lease = None;
        }
    }
    if let Some(lease) = &watch.lease {
        let _ = platform.store.lease_end(lease).await;
    }
}

impl Watch {
    async fn round(&mut self, every: Duration) -> Result<(), StoreError> {
        let platform = self.platform.clone();
        let heartbeat = platform.heartbeat();
        let now = platform.env.now();
        // A stalled loop received no heartbeats meanwhile.
        let late = SignedDuration::try_from(every).unwrap_or(heartbeat) + heartbeat;
        if now.duration_since(self.looked_at) > late {
            self.good_since = now;
        }
        self.looked_at = now;
        if self.lease.is_none() {
            let length = (heartbeat * 3).max(SignedDuration::from_secs(5));
            let holder = platform.replica.to_string();
            self.lease = platform.store.lease_acquire("loss", &holder, length, now).await?;
            self.good_since = now;
            self.told_at = None;
            if self.lease.is_some() {
                self.reassess_all_unconfirmed(now).await?;
            }
        }
        let Some(lease) = self.lease.clone() else { return Ok(()) };
        if let Some(deaf_at) = platform.fleet.deaf_at() {
            self.good_since = self.good_since.max(deaf_at);
        }
        let heard = platform.store.heartbeat_list().await?;
        let verdict = verdicts(&heard, now, self.good_since, heartbeat);
        self.declare(&lease, &heard, &verdict, now).await?;
        self.reassess_unconfirmed(&heard, now).await
    }

    /// Schedules an assessment of every unconfirmed member: while no replica held the lease, its node may have confirmed it.
    async fn reassess_all_unconfirmed(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.unconfirmed.clear();
        let mut tx = self.platform.store.begin().await?;
        tx.instances_assess_unconfirmed(now).await?;
        tx.commit().await
    }

    /// Schedules an assessment of the instances on nodes that started or stopped confirming the status of their cells.
    async fn reassess_unconfirmed(
        &mut self,
        heard: &[NodeHeartbeat],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let bound = self.platform.heartbeat() * SILENCE;
        let is_stale =
            |node: &&NodeHeartbeat| node.confirmed_at.is_none_or(|at| now.duration_since(at) >= bound);
        let unconfirmed: HashSet<NodeId> = heard.iter().filter(is_stale).map(|node| node.id).collect();
        if unconfirmed == self.unconfirmed {
            return Ok(());
        }
        let mut tx = self.platform.store.begin().await?;
        for node in unconfirmed.symmetric_difference(&self.unconfirmed) {
            tx.instances_assess_on(*node, now).await?;
        }
        tx.commit().await?;
        self.unconfirmed = unconfirmed;
        Ok(())
    }

    async fn declare(
        &mut self,
        lease: &Lease,
        heard: &[NodeHeartbeat],
        verdict: &LossDecision,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let platform = &self.platform;
        let correlation_id = muster_model::hex::encode(&platform.env.bytes::<16>());
        let window = platform.heartbeat() * SILENCE;
        let tells =
            verdict.presumed_ours.filter(|_| self.told_at.is_none_or(|at| now.duration_since(at) >= window));
        let mut lost = 0;
        let mut tx = platform.store.begin().await?;
        tx.lease_extend(lease, now).await?;
        let named: HashSet<NodeId> = verdict.lost.iter().copied().collect();
        for node in heard.iter().filter(|node| named.contains(&node.id)).take(AT_ONCE) {
            if !tx.node_lost(node.id, now).await? {
                continue;
            }
            lost += 1;
            tx.instances_assess_on(node.id, now).await?;
            let told = json!({"name": node.name, "last_heard_at": node.seen_at});
            let news = tell::News {
                actor: Actor::platform("platform"),
                action: "node.lose",
                target: tell::target(node.id, &node.name),
                subject: tell::subject(node.id),
                events: vec![(EventType::NodeUnreachable, told)],
                correlation_id: &correlation_id,
                at: now,
            };
            platform.outbox_append(&mut tx, news).await?;
        }
        if let Some(silent) = tells {
            let present = heard.iter().filter(|node| node.unreachable_since.is_none()).count();
            let news = tell::News {
                actor: Actor::platform("platform"),
                action: "fleet.presume_ours",
                target: Target { kind: "fleet".to_owned(), id: "fleet".to_owned(), name: None },
                subject: "/v1/nodes".to_owned(),
                events: vec![(
                    EventType::FleetMassLossSuspected,
                    json!({"silent": silent, "nodes": present}),
                )],
                correlation_id: &correlation_id,
                at: now,
            };
            platform.outbox_append(&mut tx, news).await?;
        }
        tx.commit().await?;
        if lost > 0 || tells.is_some() {
            platform.sealer_wake.notify_one();
        }
        platform.metrics.nodes_lost.inc_by(lost);
        if let Some(silent) = tells {
            platform.metrics.mass_loss_suspected.inc();
            tracing::warn!(
                silent,
                "many nodes missed their heartbeats at once: the fault is presumed to be the platform's, and none is declared unreachable"
            );
            self.told_at = Some(now);
        }
        if verdict.presumed_ours.is_none() {
            self.told_at = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
