//! Damaged content: found when it is read, when the same content is pushed again, and by the scrubber.
//!
//! The row forgets the file first and the file is put aside afterwards, so that a crash between the two leaves a file without a
//! row, which the collector removes. From then on the next push of the right bytes, or the registry that the content came from,
//! brings it anew, for every repository that has it.

use bytes::Bytes;
use muster_db::StoreError;
use muster_ids::EventId;
use muster_model::Scope;
use muster_model::event::{Draft, EventType};
use muster_registry::blobs::Damage;
use muster_registry::{Digest, StorageError};
use serde_json::json;

use crate::Platform;

/// Content up to this size is compared with its digest whenever it is read. Longer content is compared in length then, and in
/// digest by the scrubber and by whoever reads it.
pub(crate) const VERIFIED_ON_READ: u64 = 1 << 20;

/// Content that is as it should be, as far as a read checks.
pub(crate) enum Checked {
    /// Short, and verified.
    Whole(Bytes),
    /// Long, and of the right length.
    Long,
}

/// Why content cannot be served.
pub(crate) enum Unsound {
    /// It is damaged, and was taken out of use.
    Damaged,
    /// The storage did not answer.
    Storage(StorageError),
    /// The database did not.
    Store(StoreError),
}

impl Platform {
    /// Checks content before it is served. What is damaged is taken out of use.
    pub(crate) async fn check_blob(
        &self,
        digest: &Digest,
        size: u64,
        file: &str,
    ) -> Result<Checked, Unsound> {
        let damage = if size <= VERIFIED_ON_READ {
            match self.blobs.read_verified(file, digest, size).await.map_err(Unsound::Storage)? {
                Ok(bytes) => return Ok(Checked::Whole(bytes)),
                Err(damage) => damage,
            }
        } else {
            match self.blobs.check_length(file, size).await.map_err(Unsound::Storage)? {
                None => return Ok(Checked::Long),
                Some(damage) => damage,
            }
        };
        self.quarantine_blob(digest, file, damage, "read").await.map_err(Unsound::Store)?;
        Err(Unsound::Damaged)
    }

    /// Takes a damaged file out of use: logged, counted, and an event for operators. Only the first to find it does so.
    pub(crate) async fn quarantine_blob(
        &self,
        digest: &Digest,
        file: &str,
        damage: Damage,
        found_by: &'static str,
    ) -> Result<(), StoreError> {
        let (now, text) = (self.world.now(), digest.to_string());
        let mut tx = self.store.begin().await?;
        if !tx.blob_lost(&text, file).await? {
            tx.rollback().await;
            return Ok(());
        }
        let event = Draft {
            id: self.world.id::<EventId>(),
            event_type: EventType::BlobDamaged.as_str().to_owned(),
            subject: format!("/registry/blobs/{text}"),
            at: now,
            tenant_id: None,
            project_id: None,
            correlation_id: muster_model::hex::encode(&self.world.bytes::<16>()),
            actor_id: "platform".to_owned(),
            data: json!({"digest": text, "file": file, "damage": damage.to_string(), "found_by": found_by}),
        };
        let events = serde_json::to_string(&[event]).expect("events are JSON");
        tx.unsealed_insert(self.world.uuid(), &Scope::Platform.chain(), "", &events).await?;
        tx.commit().await?;
        self.unsealed.notify_one();
        self.metrics.damaged_blobs.inc();
        tracing::error!(
            %digest, file, %damage, found_by,
            "registry content is damaged and was taken out of use: push it again, and examine the disk"
        );
        if let Err(error) = self.blobs.quarantine(file).await {
            tracing::warn!(%error, "a damaged file could not be put aside; the collector removes it");
        }
        Ok(())
    }
}
