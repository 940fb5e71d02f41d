//! Expiry of SSH keys, by time or with their allocation.

use muster_db::{Lease, StoreError};
use muster_model::Record as _;
use muster_model::cell::SshKey;
use muster_model::event::{Draft, EventType};
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
            let drafts = json!([self.expired_event(key)]).to_string();
            tx.outbox_append(self.env.uuid(), &key.scope().chain(), "", &drafts).await?;
        }
        tx.commit().await?;
        self.sealer_wake.notify_one();
        Ok(())
    }

    fn expired_event(&self, key: &SshKey) -> Draft {
        Draft {
            id: self.env.id(),
            event_type: EventType::SshKeyExpired.as_str().to_owned(),
            subject: key.path(),
            at: self.env.now(),
            tenant_id: Some(key.tenant_id),
            project_id: Some(key.project_id),
            correlation_id: muster_model::hex::encode(&self.env.bytes::<16>()),
            actor_id: "platform".to_owned(),
            data: json!({"name": key.name, "user_id": key.user_id, "fingerprint": key.fingerprint,
                         "allocation_id": key.allocation_id, "expires_at": key.expires_at}),
        }
    }
}
