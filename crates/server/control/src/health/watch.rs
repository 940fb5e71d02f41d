//! Finds the instances to assess: those with changed members, and those with outdated facts. One replica at a time does so.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_db::{Lease, StoreError};
use muster_ids::InstanceId;

use super::assess::assess;
use crate::{Cx, Platform};

const EVERY: Duration = Duration::from_secs(1);
const LEASE: SignedDuration = SignedDuration::from_secs(10);
/// Overlap with the previous round, to catch late commits and clock skew between replicas.
const LOOK_BACK: SignedDuration = SignedDuration::from_secs(5);
/// Number of assessments between two extensions of the lease.
const AT_ONCE: usize = 100;

struct Watch {
    platform: Arc<Platform>,
    lease: Option<Lease>,
    /// Members changed before this time have been assessed.
    since: Option<Timestamp>,
}

impl Platform {
    /// Assesses due instances until stopped.
    pub async fn run_health(self: Arc<Self>, mut stop: tokio::sync::watch::Receiver<bool>) {
        let mut watch = Watch { platform: self.clone(), lease: None, since: None };
        while !*stop.borrow() {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                _ = stop.changed() => break,
            }
            if let Err(error) = watch.round().await {
                if !matches!(error, StoreError::Fenced) {
                    tracing::warn!(%error, "health could not be assessed; retrying");
                }
                (watch.lease, watch.since) = (None, None);
            }
        }
        if let Some(lease) = &watch.lease {
            let _ = self.store.lease_end(lease).await;
        }
    }

    /// Returns a request context for the platform itself.
    pub(crate) fn own_cx(self: &Arc<Self>) -> Cx {
        Cx {
            platform: self.clone(),
            actor: None,
            correlation_id: muster_model::hex::encode(&self.env.bytes::<16>()),
            now: self.env.now(),
            if_match: None,
            address: None,
            answer_slot: crate::AnswerSlot::default(),
        }
    }

    /// Assesses instances, each in a transaction of its own: one failure must not delay the others.
    pub async fn assess_all(self: &Arc<Self>, instances: &[InstanceId]) {
        for id in instances {
            if let Err(error) = assess(&self.own_cx(), *id).await {
                tracing::warn!(instance_id = %id, detail = error.detail, "the health of an instance was not assessed");
            }
        }
    }
}

impl Watch {
    async fn round(&mut self) -> Result<(), StoreError> {
        let platform = self.platform.clone();
        let now = platform.env.now();
        if self.lease.is_none() {
            let holder = platform.replica.to_string();
            self.lease = platform.store.lease_acquire("health", &holder, LEASE, now).await?;
        }
        let Some(lease) = self.lease.clone() else { return Ok(()) };
        self.extend(&lease).await?;
        let due = match self.since {
            // A new lease holder assesses everything once.
            None => platform.store.instances_with_health().await?,
            Some(since) => platform.store.instances_to_assess(since - LOOK_BACK, now).await?,
        };
        for some in due.chunks(AT_ONCE) {
            platform.assess_all(some).await;
            self.extend(&lease).await?;
        }
        self.since = Some(now);
        platform.restart_cells().await
    }

    async fn extend(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut tx = self.platform.store.begin().await?;
        tx.lease_extend(lease, self.platform.env.now()).await?;
        tx.commit().await
    }
}
