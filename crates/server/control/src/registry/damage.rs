//! Damaged content: detected by reads, by pushes of the same content, and by the scrubber.
//!
//! The row drops its file first and the file is moved aside afterwards, so that a crash between the two leaves a file
//! without a row, which garbage collection removes. From then on the next push of the right bytes, or the source registry,
//! restores the content for every repository that has it.

use bytes::Bytes;
use muster_db::StoreError;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::origin::Origin;
use muster_registry::blobs::Damage;
use muster_registry::{Digest, StorageError};
use serde_json::json;

use crate::Platform;

/// Content up to this size is verified against its digest on every read. For longer content a read verifies the length; the
/// scrubber and the client verify the digest.
pub(crate) const VERIFIED_ON_READ: u64 = 1 << 20;

/// Content that passed the checks of a read.
pub(crate) enum Checked {
    /// Short content, verified by digest.
    Whole(Bytes),
    /// Long content, verified by length.
    Long,
}

/// Reason why content cannot be served.
pub(crate) enum Unsound {
    /// It is damaged and has been quarantined.
    Damaged,
    /// The storage failed.
    Storage(StorageError),
    /// The database failed.
    Store(StoreError),
}

impl Platform {
    /// Verifies content before it is served. Damaged content is quarantined.
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

    /// Quarantines a damaged file: logged, counted, and with an event for operators. Only the first detection does so.
    pub(crate) async fn quarantine_blob(
        &self,
        digest: &Digest,
        file: &str,
        damage: Damage,
        found_by: &'static str,
    ) -> Result<(), StoreError> {
        let text = digest.to_string();
        let mut tx = self.store.begin().await?;
        if !tx.blob_lost(&text, file).await? {
            tx.rollback().await;
            return Ok(());
        }
        let data = json!({"digest": text, "file": file, "damage": damage.to_string(), "found_by": found_by});
        let event = (EventType::BlobDamaged, format!("/registry/blobs/{text}"), data);
        let origin = Origin::platform(&self.env, Scope::Platform, "registry");
        tx.outbox_append(&self.env, &origin, None, vec![event]).await?;
        tx.commit().await?;
        self.sealer_wake.notify_one();
        self.metrics.damaged_blobs.inc();
        tracing::error!(
            %digest, file, %damage, found_by,
            "registry content is damaged and was quarantined: push it again, and examine the disk"
        );
        if let Err(error) = self.blobs.quarantine(file).await {
            tracing::warn!(%error, "a damaged file could not be quarantined; the collector removes it");
        }
        Ok(())
    }
}
