//! Pulled content that is not unpacked yet: an OCI layout of the agent's own.
//!
//! ```text
//! FOLDER/pulled/blobs/sha256/…   complete blobs, named by digest
//! FOLDER/pulled/partial/…        partial blobs: the next attempt resumes there, also after a crash
//! ```
//!
//! Layers are removed as soon as they are unpacked and not held by another pull. Remains of a failure are kept for a day,
//! because a failed task is usually retried, unless another image needs the space. The disk reserve stays free throughout.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use muster_image::{Blob, Digest, Limits};
use parking_lot::Mutex;

use crate::folder::Folder;

/// Age at which content without a hold is removed, from its last byte.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Bytes between two reads of the free space.
const STEP: u64 = 4 << 20;

/// The layout and its locks. Only one agent works in a folder, so the locks are in memory.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    turns: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
    held: Mutex<HashMap<Digest, usize>>,
}

impl Store {
    /// Returns the store in an agent's folder. Nothing is created before the first pull.
    pub(crate) fn new(folder: &Folder) -> Self {
        Self { folder: folder.path().join("pulled"), turns: Mutex::default(), held: Mutex::default() }
    }

    pub(super) fn make(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        let make = |path: PathBuf| fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        make(self.blobs())?;
        make(self.folder.join("partial"))
    }

    fn blobs(&self) -> PathBuf {
        self.folder.join("blobs").join("sha256")
    }

    pub(super) fn blob(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }

    pub(super) fn partial(&self, digest: &Digest) -> PathBuf {
        self.folder.join("partial").join(digest.hex())
    }

    /// Reports whether the blob exists. Its content is verified when it is unpacked.
    pub(super) fn has(&self, blob: &Blob) -> bool {
        fs::metadata(self.blob(&blob.digest)).is_ok_and(|facts| facts.is_file() && facts.len() == blob.size)
    }

    /// Returns the size of the partial blob.
    fn so_far(&self, blob: &Blob) -> u64 {
        fs::metadata(self.partial(&blob.digest)).map_or(0, |facts| facts.len())
    }

    /// Returns the lock for fetching a blob, so that concurrent pulls fetch it once.
    pub(super) fn turn(&self, digest: &Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(digest).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(*digest, Arc::downgrade(&turn));
        turn
    }

    /// Protects these layers from removal.
    pub(super) fn hold(self: &Arc<Self>, layers: Vec<Digest>) -> Hold {
        let mut held = self.held.lock();
        for layer in &layers {
            *held.entry(*layer).or_default() += 1;
        }
        drop(held);
        Hold { store: self.clone(), layers, finished: AtomicBool::new(false) }
    }

    /// Returns the space for the missing part of these layers, and for unpacking them.
    pub(super) fn needed_for(&self, layers: &[Blob]) -> u64 {
        let missing: u64 = layers
            .iter()
            .filter(|blob| !self.has(blob))
            .map(|blob| blob.size.saturating_sub(self.so_far(blob)))
            .sum();
        let unpacked: u64 = layers.iter().map(|blob| blob.size).sum();
        missing.saturating_add(unpacked)
    }

    /// Checks that the disk has space for these layers beside the reserve. The error states the remedy.
    pub(super) fn has_room(&self, layers: &[Blob]) -> Result<(), String> {
        let needed = self.needed_for(layers).saturating_add(reserve());
        let free = free_space(&rustix::fs::statvfs(&self.folder).map_err(|error| error.to_string())?);
        if free >= needed {
            return Ok(());
        }
        let megabytes = |bytes: u64| bytes >> 20;
        Err(format!(
            "the node's disk has {} MB free, and the image needs {} MB, {} MB of them in reserve: use a smaller image or another node, or remove something there",
            megabytes(free),
            megabytes(needed),
            megabytes(reserve())
        ))
    }

    /// Removes expired content without a hold.
    pub(super) fn sweep(&self, now: Timestamp) {
        self.remove_unheld(|facts| {
            let modified = facts.modified().ok();
            let age = modified.and_then(|at| std::time::SystemTime::from(now).duration_since(at).ok());
            age.is_some_and(|age| age > KEPT)
        });
    }

    /// Removes layers left by failures, whatever their age. Documents of a pull in progress have no hold, and are short.
    pub(super) fn remove_unheld_layers(&self) {
        let most = Limits::default().document_bytes;
        self.remove_unheld(|facts| facts.len() > most);
    }

    fn remove_unheld(&self, is_wanted_gone: impl Fn(&fs::Metadata) -> bool) {
        let held = self.held.lock();
        let names: Vec<String> = held.keys().map(Digest::hex).collect();
        for folder in [self.blobs(), self.folder.join("partial")] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let kept = name.to_str().is_some_and(|name| names.iter().any(|held| held == name));
                if !kept && entry.metadata().is_ok_and(|facts| is_wanted_gone(&facts)) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
}

/// Checks while a blob is written that the reserve stays free: its declared size is untrusted, and other processes write
/// too.
#[derive(Debug)]
pub(super) struct Reserve {
    least: u64,
    granted: u64,
}

impl Default for Reserve {
    fn default() -> Self {
        Self::of(reserve())
    }
}

impl Reserve {
    /// Returns a reserve of `least` bytes.
    pub(super) fn of(least: u64) -> Self {
        Self { least, granted: 0 }
    }

    pub(super) fn take(&mut self, file: &fs::File, bytes: u64) -> io::Result<()> {
        if self.granted < bytes {
            let step = STEP.max(bytes);
            let free = free_space(&rustix::fs::fstatvfs(file)?);
            if free < self.least.saturating_add(step) {
                let (free, reserve) = (free >> 20, self.least >> 20);
                let why = format!("{free} MB of its space are free, and {reserve} MB are reserved");
                return Err(io::Error::new(io::ErrorKind::StorageFull, why));
            }
            self.granted = step;
        }
        self.granted -= bytes;
        Ok(())
    }
}

/// Returns the disk space left to other uses.
fn reserve() -> u64 {
    Limits::default().free.bytes
}

fn free_space(disk: &rustix::fs::StatVfs) -> u64 {
    disk.f_bavail.saturating_mul(disk.f_frsize)
}

/// Layers about to be unpacked.
#[derive(Debug)]
pub(crate) struct Hold {
    store: Arc<Store>,
    layers: Vec<Digest>,
    finished: AtomicBool,
}

impl Hold {
    pub(super) fn layout(&self) -> &Path {
        &self.store.folder
    }

    /// Marks the layers as unpacked.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.store.held.lock();
        for layer in &self.layers {
            let left = held.get_mut(layer).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                held.remove(layer);
                if self.finished.load(Ordering::Relaxed) {
                    // The next sweep retries a failed removal.
                    let _ = fs::remove_file(self.store.blob(layer));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::{SignedDuration, Timestamp};
    use muster_image::{Blob, Digest};

    use super::Store;
    use crate::folder::Folder;

    fn store(parent: &tempfile::TempDir) -> Arc<Store> {
        let store = Store::new(&Folder::new(parent.path()));
        store.make().unwrap();
        Arc::new(store)
    }

    #[test]
    fn a_layer_that_two_images_share_goes_when_the_second_is_unpacked() {
        let parent = tempfile::tempdir().unwrap();
        let store = store(&parent);
        let (shared, other) = (Digest::of(b"shared"), Digest::of(b"other"));
        std::fs::write(store.blob(&shared), b"shared").unwrap();
        std::fs::write(store.blob(&other), b"other").unwrap();
        let (one, two) = (store.hold(vec![shared, other]), store.hold(vec![shared]));
        let failed = store.hold(vec![shared]);
        one.finish();
        drop(one);
        assert!(store.blob(&shared).exists() && !store.blob(&other).exists());
        drop(failed);
        two.finish();
        drop(two);
        assert!(!store.blob(&shared).exists());
    }

    #[test]
    fn partial_download_is_kept_for_a_day() {
        let parent = tempfile::tempdir().unwrap();
        let store = store(&parent);
        let (left, held) = (Digest::of(b"left"), Digest::of(b"held"));
        for digest in [left, held] {
            std::fs::write(store.partial(&digest), b"some").unwrap();
        }
        let holding = store.hold(vec![held]);
        let written = std::fs::metadata(store.partial(&left)).unwrap().modified().unwrap();
        let now = Timestamp::try_from(written).unwrap();
        store.sweep(now + SignedDuration::from_hours(23));
        assert!(store.partial(&left).exists());
        store.sweep(now + SignedDuration::from_hours(25));
        assert!(!store.partial(&left).exists() && store.partial(&held).exists());
        drop(holding);
    }

    #[test]
    fn layers_that_a_failure_left_give_way_to_another_image() {
        let parent = tempfile::tempdir().unwrap();
        let store = store(&parent);
        let [left, held, document] = [b"left", b"held", b"docu"].map(|name| Digest::of(name));
        for (digest, length) in [(left, 5 << 20), (held, 5 << 20), (document, 1 << 20)] {
            std::fs::File::create(store.blob(&digest)).unwrap().set_len(length).unwrap();
        }
        let holding = store.hold(vec![held]);
        store.remove_unheld_layers();
        let there = [left, held, document].map(|digest| store.blob(&digest).exists());
        assert_eq!(there, [false, true, true]);
        drop(holding);
    }

    #[test]
    fn an_image_that_does_not_fit_is_known_not_to_before_it_is_fetched() {
        let parent = tempfile::tempdir().unwrap();
        let store = store(&parent);
        let blob = |size| Blob { digest: Digest::of(b"layer"), size };
        store.has_room(&[blob(1 << 10)]).unwrap();
        let said = store.has_room(&[blob(1 << 60)]).unwrap_err();
        assert!(said.contains("MB free") && said.contains("remove something"), "{said}");
    }
}
