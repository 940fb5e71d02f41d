//! The sweeper: periodic work. It writes counted rejections, deletes rows past their retention and rewraps keys under an old
//! root key.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Lease, StoreError};
use muster_model::audit::Entry;

use crate::Platform;

/// Lease duration: twice the interval of rounds and a margin. After a crash another server takes over within this time.
const LEASE: SignedDuration = SignedDuration::from_secs(45);
/// Retention of revoked and expired tokens and runtime secrets in lists.
const TOKEN_RETENTION: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Retention of streams that cannot be joined any more: a late client gets the reason.
const STREAM_RETENTION: SignedDuration = SignedDuration::from_mins(5);
/// Retention of ended agent tasks.
const TASK_RETENTION: SignedDuration = SignedDuration::from_hours(24);
/// Retention of archived logs of removed cells.
const LOG_RETENTION: SignedDuration = SignedDuration::from_hours(24 * 7);
/// Retention of webhook deliveries.
const DELIVERY_RETENTION: SignedDuration = SignedDuration::from_hours(24 * 7);

impl Platform {
    /// Sweeps until stopped.
    pub async fn run_sweeper(self: Arc<Self>, every: Duration, mut stop: tokio::sync::watch::Receiver<bool>) {
        let holder = self.replica.to_string();
        let mut lease: Option<Lease> = None;
        while !*stop.borrow() {
            if let Err(error) = self.note_used_tokens().await {
                tracing::debug!(%error, "last-used times wait for the next round");
            }
            if let Ok(waiting) = self.store.outbox_count().await {
                self.metrics.outbox.set(waiting);
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
                let now = self.env.now();
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
        let now = self.env.now();
        let mut tx = self.store.begin().await?;
        tx.lease_extend(lease, now).await?;
        for (count, text) in tx.refusal_take(now.as_second() / 60).await? {
            // The first rejection of the minute was recorded at once; this records the number of further ones.
            if count > 1 {
                let mut entry: Entry =
                    serde_json::from_str(&text).map_err(|_| StoreError::Corrupt("a counted refusal"))?;
                entry.count = count - 1;
                let text = serde_json::to_string(&entry).expect("an audit entry is JSON");
                tx.outbox_append(self.env.uuid(), &entry.scope().chain(), &text, "[]").await?;
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

    /// Rewraps keys with the active root key, a few at a time; readers do not notice.
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
                            // Another replica was first.
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
