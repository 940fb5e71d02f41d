//! The sweeper: periodic work. It writes counted rejections, deletes rows past their retention and rewraps keys under an old
//! root key.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Lease, StoreError};
use muster_model::audit::Entry;

use muster_control::Platform;

use crate::due::open_due;
use crate::reseal::reseal;

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

/// Sweeps until stopped.
pub async fn sweep(platform: Arc<Platform>, every: Duration, mut stop: tokio::sync::watch::Receiver<bool>) {
    let holder = platform.replica.to_string();
    let mut lease: Option<Lease> = None;
    while !*stop.borrow() {
        if let Err(error) = platform.note_used_tokens().await {
            tracing::debug!(%error, "last-used times are written in the next round");
        }
        if let Ok(waiting) = platform.store.outbox_count().await {
            platform.metrics.outbox.set(waiting);
        }
        match platform.root_keys().reload() {
            Ok(true) => {
                tracing::info!(active = platform.root_keys().active(), "the root key file was reloaded")
            }
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, "the root key file has become unusable; the keys in memory are kept")
            }
        }
        if lease.is_none() {
            let now = platform.env.now();
            lease = platform.store.lease_acquire("sweeper", &holder, LEASE, now).await.unwrap_or(None);
        }
        if let Some(held) = &lease
            && let Err(error) = open_due(&platform, held).await
        {
            tracing::warn!(%error, "due operations could not be submitted; retrying");
        }
        if let Some(held) = &lease
            && let Err(error) = sweep_once(&platform, held).await
        {
            tracing::warn!(%error, "a sweep failed; retrying");
            lease = None;
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            _ = stop.changed() => {}
        }
    }
    if let Some(lease) = &lease {
        let _ = platform.store.lease_end(lease).await;
    }
}

async fn sweep_once(platform: &Platform, lease: &Lease) -> Result<(), StoreError> {
    let now = platform.env.now();
    let mut tx = platform.store.begin().await?;
    tx.lease_extend(lease, now).await?;
    for (count, text) in tx.refusal_take(now.as_second() / 60).await? {
        // The first rejection of the minute was recorded at once; this records the number of further ones.
        if count > 1 {
            let mut entry: Entry =
                serde_json::from_str(&text).map_err(|_| StoreError::Corrupt("a counted refusal"))?;
            entry.count = count - 1;
            let text = serde_json::to_string(&entry).expect("an audit entry is JSON");
            tx.outbox_insert(platform.env.uuid(), &entry.scope().chain(), &text, "[]").await?;
        }
    }
    tx.commit().await?;

    let mut tx = platform.store.begin().await?;
    tx.lease_extend(lease, now).await?;
    tx.sweep_idempotency(now - platform.options.idempotency_retention).await?;
    tx.sweep_tokens(now - TOKEN_RETENTION).await?;
    tx.sweep_deliveries(now - DELIVERY_RETENTION).await?;
    tx.task_prune(now - TASK_RETENTION).await?;
    tx.adapter_step_prune(now - TASK_RETENTION).await?;
    tx.cell_log_prune(now - LOG_RETENTION).await?;
    tx.enrolment_prune(now - TOKEN_RETENTION).await?;
    tx.stream_prune(now - STREAM_RETENTION).await?;
    tx.runtime_secret_prune(now - TOKEN_RETENTION).await?;
    if let Some(kept) = platform.options.event_retention {
        tx.sweep_events(now - kept).await?;
    }
    if let Some(kept) = platform.options.audit_retention {
        tx.sweep_audit(now - kept).await?;
    }
    tx.commit().await?;
    rewrap(platform).await?;
    reseal(platform).await
}

/// Rewraps keys with the active root key, a few at a time; readers do not notice.
pub async fn rewrap(platform: &Platform) -> Result<(), StoreError> {
    loop {
        let active = platform.root_keys().active();
        let old = platform.store.sealing_keys_not_under(&active, 100).await?;
        if old.is_empty() {
            return Ok(());
        }
        for key in old {
            match platform.envelope.rewrap(&key) {
                Ok(fresh) => {
                    let mut tx = platform.store.begin().await?;
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
