//! The scrubber: verifies all content at a steady pace, and quarantines damaged files.
//!
//! Reads verify short content by digest and long content only by length: hashing a layer of gigabytes on each pull would
//! cost more than the pull. The scrubber closes that gap within one pass over the disk.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use muster_db::{Lease, StoreError};
use muster_registry::blobs::Damage;
use muster_registry::{Digest, StorageError};

use crate::Platform;

/// Number of rows listed at a time.
const BATCH: i64 = 100;
/// A pass ends after so many missing files: more at once is a mount or a restore gone wrong rather than a disk.
const MISSING: u64 = 10;
/// Extended with each file.
const LEASE: SignedDuration = SignedDuration::from_mins(5);

/// Result of a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Damaged files.
    pub damaged: u64,
    /// How many of those were missing.
    pub missing: u64,
}

impl Platform {
    /// Verifies all content after this digest. `pace` is in bytes per second; none is as fast as the disk reads.
    pub async fn scrub_blobs(
        &self,
        lease: Option<&Lease>,
        after: &str,
        pace: Option<u64>,
    ) -> Result<Scrubbed, StoreError> {
        let mut scrubbed = Scrubbed::default();
        let mut after = after.to_owned();
        loop {
            let rows = self.store.blob_files(&after, BATCH).await?;
            let Some(last) = rows.last() else { return Ok(scrubbed) };
            after = last.digest.clone();
            for row in rows {
                if let Some(lease) = lease {
                    let mut tx = self.store.begin().await?;
                    tx.lease_extend(lease, self.env.now()).await?;
                    tx.commit().await?;
                }
                let size = u64::try_from(row.size).unwrap_or_default();
                let Ok(digest) = row.digest.parse::<Digest>() else { continue };
                match self.blobs.check_content(&row.file, &digest, size).await {
                    Ok(None) => {}
                    // Garbage collection may have removed the file of a deleted row; then no row is updated, and nothing
                    // counts as damaged.
                    Ok(Some(damage)) => {
                        self.quarantine_blob(&digest, &row.file, damage, "scrubber").await?;
                        scrubbed.damaged += 1;
                        scrubbed.missing += u64::from(damage == Damage::Missing);
                        if scrubbed.missing == MISSING {
                            tracing::error!(
                                missing = MISSING,
                                "verification of the registry's content stopped, too many files are missing: \
                                 examine the mount or the restore; the collector restores files that \
                                 reappear"
                            );
                            return Ok(scrubbed);
                        }
                    }
                    Err(error @ StorageError::Away { .. }) => {
                        tracing::error!(%error, "the registry's content cannot be verified");
                        return Ok(scrubbed);
                    }
                    Err(error) => tracing::error!(%error, "a file of the registry could not be read"),
                }
                scrubbed.files += 1;
                scrubbed.bytes += size;
                self.metrics.scrubbed_bytes.inc_by(size);
                if let Some(pace) = pace {
                    tokio::time::sleep(Duration::from_secs_f64(size as f64 / pace.max(1) as f64)).await;
                }
            }
        }
    }

    /// Scrubs forever, at one server at a time.
    pub async fn run_scrubber(self: Arc<Self>) {
        let Some(pace) = self.options.scrub_pace else { return std::future::pending().await };
        let holder = self.replica.to_string();
        // A random start, so that a server that restarts often does not verify the same files each time.
        let [first] = self.env.bytes::<1>();
        let mut after = format!("sha256:{first:02x}");
        loop {
            tokio::time::sleep(self.options.garbage_every).await;
            let lease = self.store.lease_acquire("scrubber", &holder, LEASE, self.env.now()).await;
            let Ok(Some(lease)) = lease else { continue };
            match self.scrub_blobs(Some(&lease), &after, Some(pace)).await {
                Ok(scrubbed) => {
                    tracing::info!(?scrubbed, "the registry's content was verified");
                    after.clear();
                }
                Err(error) => {
                    tracing::warn!(%error, "the registry's content could not be verified; retrying")
                }
            }
            let _ = self.store.lease_end(&lease).await;
        }
    }
}
