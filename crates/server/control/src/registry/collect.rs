//! Garbage collection of unreferenced content.
//!
//! In three steps, each safe against pushes under way and against being killed between any two: links from repositories to blobs
//! that no manifest has needed for a while go; then rows of blobs that no repository has; then the files of those rows. A file's
//! name is used once, so whoever pushes the same content meanwhile has another file and another row. What a crash leaves between
//! the last two steps is a file that no row names, which is found by listing and looking. Such a file is removed only if no row of its
//! digest lacks content: otherwise it is verified and given back to that row.

use jiff::{SignedDuration, Timestamp};
use muster_db::{Lease, StoreError};
use muster_registry::blobs::FoundFile;

use crate::Platform;

/// Batch size, which keeps transactions short.
const BATCH: i64 = 200;
/// Lease duration, extended on the way; after a crash no other server collects for this long.
const LEASE: SignedDuration = SignedDuration::from_secs(45);
/// Number of files listed at a time.
const FILES: usize = 1000;

/// Number of removed items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Links from repositories.
    pub links: u64,
    /// Blobs.
    pub blobs: u64,
    /// Files without a row.
    pub files: u64,
    /// Intact files that were given back to rows without one.
    pub restored: u64,
    /// Abandoned uploads.
    pub uploads: u64,
}

impl Platform {
    /// Collects garbage now. The lease keeps two servers from duplicating the work; correctness does not depend on it.
    pub async fn collect_garbage(&self, lease: Option<&Lease>) -> Result<Collected, StoreError> {
        let now = self.env.now();
        let before = now - self.options.garbage_grace;
        let links = self.collect_links(lease, before).await?;
        let blobs = self.collect_blobs(lease).await?;
        let (files, restored) = self.collect_files(lease, now).await?;
        let collected = Collected { links, blobs, files, restored, uploads: self.collect_uploads(now).await };
        if collected != Collected::default() {
            tracing::info!(?collected, "garbage was collected");
        }
        Ok(collected)
    }

    /// Collects garbage periodically, at one server at a time.
    pub async fn run_collector(self: std::sync::Arc<Self>) {
        let holder = self.replica.to_string();
        let length = LEASE;
        loop {
            tokio::time::sleep(self.options.garbage_every).await;
            let lease = self.store.lease_acquire("collector", &holder, length, self.env.now()).await;
            let Ok(Some(lease)) = lease else { continue };
            if let Err(error) = self.collect_garbage(Some(&lease)).await {
                tracing::warn!(%error, "garbage could not be collected; retrying");
            }
            let _ = self.store.lease_end(&lease).await;
        }
    }

    async fn collect_links(&self, lease: Option<&Lease>, before: Timestamp) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let links = self.store.garbage_links(before, BATCH).await?;
            let found = links.len();
            let mut gone = 0;
            for (repository, digest) in links {
                let mut tx = self.store.begin().await?;
                if let Some(lease) = lease {
                    tx.lease_extend(lease, self.env.now()).await?;
                }
                // A manifest may reference it since the query: the foreign key decides.
                match tx.garbage_link_delete(repository, &digest, before).await {
                    Ok(true) => {
                        tx.commit().await?;
                        gone += 1;
                    }
                    Ok(false) | Err(StoreError::Gone(_)) => tx.rollback().await,
                    Err(error) => return Err(error),
                }
            }
            removed += gone;
            if found < usize::try_from(BATCH).unwrap_or(usize::MAX) || gone == 0 {
                break;
            }
        }
        if removed > 0 {
            let mut tx = self.store.begin().await?;
            tx.garbage_external_delete().await?;
            tx.commit().await?;
        }
        Ok(removed)
    }

    async fn collect_blobs(&self, lease: Option<&Lease>) -> Result<u64, StoreError> {
        let mut removed = 0;
        loop {
            let digests = self.store.garbage_blobs(BATCH).await?;
            let found = digests.len();
            let mut gone = 0;
            for digest in digests {
                let mut tx = self.store.begin().await?;
                if let Some(lease) = lease {
                    tx.lease_extend(lease, self.env.now()).await?;
                }
                let file = match tx.garbage_blob_delete(&digest).await {
                    Ok(file) => file,
                    Err(StoreError::Gone(_)) => {
                        tx.rollback().await;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                tx.commit().await?;
                gone += 1;
                self.engine.points.reach("garbage:row-gone");
                if let Some(file) = file
                    && let Err(error) = self.blobs.remove(&file).await
                {
                    tracing::warn!(%error, "an unused file stays until the next collection");
                }
                self.engine.points.reach("garbage:file-gone");
            }
            removed += gone;
            if found < usize::try_from(BATCH).unwrap_or(usize::MAX) || gone == 0 {
                return Ok(removed);
            }
        }
    }

    /// Files that no row knows. A fresh one is a push whose row is about to be written.
    /// Returns how many were removed, and how many were given back to a row.
    async fn collect_files(&self, lease: Option<&Lease>, now: Timestamp) -> Result<(u64, u64), StoreError> {
        let (mut removed, mut restored) = (0, 0);
        let mut after: Option<String> = None;
        let age = self.options.garbage_grace.clamp(FLOOR, FRESH);
        loop {
            if let Some(lease) = lease {
                let mut tx = self.store.begin().await?;
                tx.lease_extend(lease, self.env.now()).await?;
                tx.commit().await?;
            }
            let found = match self.blobs.files(after.as_deref(), FILES).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "the blobs' storage could not be listed");
                    return Ok((removed, restored));
                }
            };
            let old: Vec<&FoundFile> =
                found.iter().filter(|file| now.duration_since(file.modified) > age).collect();
            let known: std::collections::HashSet<String> = match old.is_empty() {
                true => Default::default(),
                false => {
                    let names: Vec<String> = old.iter().map(|file| file.name.clone()).collect();
                    self.store.blob_files_known(&names).await?.into_iter().collect()
                }
            };
            for file in old.into_iter().filter(|file| !known.contains(&file.name)) {
                // Once more, as late as can be: the row of a slow push may have come since.
                if !self.store.blob_files_known(std::slice::from_ref(&file.name)).await?.is_empty() {
                    continue;
                }
                // A row that lost its file must never see an intact copy deleted.
                if self.store.blob_lacks_file(&file.digest.to_string()).await? {
                    restored += u64::from(self.restore_file(lease, file).await?);
                    continue;
                }
                match self.blobs.remove(&file.name).await {
                    Ok(_) => removed += 1,
                    Err(error) => tracing::warn!(%error, "an orphaned file could not be removed"),
                }
            }
            match found.last() {
                Some(last) if found.len() == FILES => after = Some(last.name.clone()),
                _ => return Ok((removed, restored)),
            }
        }
    }

    /// Gives a file back to the row that lacks one, if its content is intact. A damaged one is put aside, and one that cannot be
    /// read stays.
    async fn restore_file(&self, lease: Option<&Lease>, file: &FoundFile) -> Result<bool, StoreError> {
        let (name, digest) = (&file.name, &file.digest);
        match self.blobs.check_content(name, digest, file.size).await {
            Ok(None) => {}
            Ok(Some(damage)) => {
                tracing::error!(%digest, file = name, %damage, "a damaged orphaned file was quarantined");
                if let Err(error) = self.blobs.quarantine(name).await {
                    tracing::warn!(%error, "a damaged file could not be quarantined");
                }
                return Ok(false);
            }
            Err(error) => {
                tracing::warn!(%error, "a file of a missing row could not be read; it stays");
                return Ok(false);
            }
        }
        let mut tx = self.store.begin().await?;
        if let Some(lease) = lease {
            tx.lease_extend(lease, self.env.now()).await?;
        }
        let size = i64::try_from(file.size).unwrap_or(i64::MAX);
        let restored = tx.blob_restore(&digest.to_string(), name, size).await?;
        tx.commit().await?;
        if restored {
            tracing::warn!(%digest, file = name, "missing registry content reappeared and was restored");
        }
        Ok(restored)
    }

    async fn collect_uploads(&self, now: Timestamp) -> u64 {
        let age = std::time::Duration::try_from(self.options.garbage_grace).unwrap_or_default();
        let old = match self.blobs.uploads_older_than(age, now).await {
            Ok(old) => old,
            Err(error) => {
                tracing::warn!(%error, "uploads could not be listed");
                return 0;
            }
        };
        let mut removed = 0;
        for (owner, upload) in old {
            // An upload in progress is kept.
            if let Ok(true) = self.blobs.upload_cancel(owner, upload).await {
                removed += 1;
            }
        }
        removed
    }
}

/// Age limits of files without a row. Only milliseconds pass between a file's last write and its row; an hour is far beyond
/// that, and the floor is the minimum.
const FRESH: SignedDuration = SignedDuration::from_hours(1);
const FLOOR: SignedDuration = SignedDuration::from_secs(10);
