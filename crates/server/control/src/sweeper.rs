//! The sweeper: what is due by the clock. Refusals that were counted, rows past their retention, keys under an old root key.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Lease, StoreError};
use muster_model::audit::Entry;

use crate::Platform;

/// Twice the pause between two rounds and a little: after a crash, what is due waits no longer than that for another server.
const LEASE: SignedDuration = SignedDuration::from_secs(45);
/// Revoked and expired tokens and runtime secrets stay visible in lists for so long.
const TOKEN_RETENTION: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Streams that can be joined no more are kept for so long: whoever comes late is told why.
const STREAM_RETENTION: SignedDuration = SignedDuration::from_mins(5);
/// What agents were asked to do is kept for so long after its end.
const TASK_RETENTION: SignedDuration = SignedDuration::from_hours(24);
/// The last that the services of cells wrote that are gone is kept for so long.
const LOG_RETENTION: SignedDuration = SignedDuration::from_hours(24 * 7);
/// What was sent to webhooks stays visible for so long.
const DELIVERY_RETENTION: SignedDuration = SignedDuration::from_hours(24 * 7);

impl Platform {
    /// Sweeps until told to stop.
    pub async fn run_sweeper(self: Arc<Self>, every: Duration, mut stop: tokio::sync::watch::Receiver<bool>) {
        let holder = self.replica.to_string();
        let mut lease: Option<Lease> = None;
        while !*stop.borrow() {
            if let Err(error) = self.note_used_tokens().await {
                tracing::debug!(%error, "last-used times wait for the next round");
            }
            if let Ok(waiting) = self.store.unsealed_count().await {
                self.metrics.unsealed.set(waiting);
            }
            match self.root_keys().reload() {
                Ok(true) => {
                    tracing::info!(active = self.root_keys().active(), "the root key file was read again")
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(%error, "the root key file has become unusable; the keys in memory are kept")
                }
            }
            if lease.is_none() {
                let now = self.world.now();
                lease = self.store.lease_acquire("sweeper", &holder, LEASE, now).await.unwrap_or(None);
            }
            if let Some(held) = &lease
                && let Err(error) = self.open_due(held).await
            {
                tracing::warn!(%error, "what is due could not be opened; it is tried again");
            }
            if let Some(held) = &lease
                && let Err(error) = self.sweep(held).await
            {
                tracing::warn!(%error, "a sweep failed; it is tried again");
                lease = None;
            }
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                _ = stop.changed() => {}
            }
        }
        if let Some(lease) = &lease {
            let _ = self.store.lease_end(lease).await;
        }
    }

    async fn sweep(&self, lease: &Lease) -> Result<(), StoreError> {
        let now = self.world.now();
        let mut tx = self.store.begin().await?;
        tx.lease_extend(lease, now).await?;
        for (count, text) in tx.refusal_take(now.as_second() / 60).await? {
            // The first of the minute was written when it happened; what is left to tell is how often more.
            if count > 1 {
                let mut entry: Entry =
                    serde_json::from_str(&text).map_err(|_| StoreError::Corrupt("a counted refusal"))?;
                entry.count = count - 1;
                let text = serde_json::to_string(&entry).expect("an audit entry is JSON");
                tx.unsealed_insert(self.world.uuid(), &entry.scope().chain(), &text, "[]").await?;
            }
        }
        tx.commit().await?;

        let mut tx = self.store.begin().await?;
        tx.lease_extend(lease, now).await?;
        tx.sweep_idempotency(now - self.options.idempotency_retention).await?;
        tx.sweep_tokens(now - TOKEN_RETENTION).await?;
        tx.sweep_deliveries(now - DELIVERY_RETENTION).await?;
        tx.task_prune(now - TASK_RETENTION).await?;
        tx.adapter_step_prune(now - TASK_RETENTION).await?;
        tx.cell_log_prune(now - LOG_RETENTION).await?;
        tx.enrolment_prune(now - TOKEN_RETENTION).await?;
        tx.stream_prune(now - STREAM_RETENTION).await?;
        tx.runtime_secret_prune(now - TOKEN_RETENTION).await?;
        if let Some(kept) = self.options.event_retention {
            tx.sweep_events(now - kept).await?;
        }
        if let Some(kept) = self.options.audit_retention {
            tx.sweep_audit(now - kept).await?;
        }
        tx.commit().await?;
        self.rewrap().await?;
        self.reseal().await
    }

    /// Moves keys to the active root key, a few at a time; readers never notice.
    pub async fn rewrap(&self) -> Result<(), StoreError> {
        loop {
            let active = self.root_keys().active();
            let old = self.store.sealing_keys_not_under(&active, 100).await?;
            if old.is_empty() {
                return Ok(());
            }
            for key in old {
                match self.envelope.rewrap(&key) {
                    Ok(fresh) => {
                        let mut tx = self.store.begin().await?;
                        match tx.sealing_key_rewrap(&fresh, &key.root_key_id).await {
                            Ok(()) => tx.commit().await?,
                            // Another replica was faster.
                            Err(StoreError::Stale) => tx.rollback().await,
                            Err(error) => return Err(error),
                        }
                    }
                    Err(error) => {
                        tracing::error!(%error, owner = key.owner, "a key stays under its old root key");
                        return Ok(());
                    }
                }
            }
        }
    }
}
