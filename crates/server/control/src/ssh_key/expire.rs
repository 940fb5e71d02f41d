//! Expiry of SSH keys, by time or with their allocation.

use muster_db::{Lease, StoreError};
use muster_model::Record as _;
use muster_model::cell::SshKey;
use muster_model::event::{EventType, NewEvent};
use muster_model::origin::Origin;
use serde_json::json;

use crate::Platform;

/// Maximum number of keys removed per transaction.
const BATCH: i64 = 100;

impl Platform {
    /// Removes expired keys and notifies the nodes that have them. Nodes are also never sent a key that has expired
    /// meanwhile.
    pub async fn expire_ssh_keys(&self, lease: &Lease) -> Result<(), StoreError> {
        let now = self.env.now();
        let expired = self.store.ssh_key_expired(now, BATCH).await?;
        if expired.is_empty() {
            return Ok(());
        }
        let mut tx = self.store.begin().await?;
        tx.lease_extend(lease, now).await?;
        for key in &expired {
            match tx.delete_record(key).await {
                Err(StoreError::Stale) => continue, // Deleted by a user meanwhile.
                result => result?,
            }
            tx.bump_desired_people(key.tenant_id).await?;
            let origin = Origin::platform(&self.env, key.scope(), "expiry");
            tx.outbox_append(&self.env, &origin, None, vec![expired_event(key)]).await?;
        }
        tx.commit().await?;
        self.sealer_wake.notify_one();
        Ok(())
    }
}

fn expired_event(key: &SshKey) -> NewEvent {
    let data = json!({"name": key.name, "user_id": key.user_id, "fingerprint": key.fingerprint,
                      "allocation_id": key.allocation_id, "expires_at": key.expires_at});
    (EventType::SshKeyExpired, key.path(), data)
}
