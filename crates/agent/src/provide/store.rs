//! What was pulled and is not unpacked yet: an OCI layout of the agent's own.
//!
//! ```text
//! FOLDER/pulled/blobs/sha256/…   whole, with the digest that its name says
//! FOLDER/pulled/partial/…        what has come of a blob so far: the next attempt goes on from there, also after a crash
//! ```
//!
//! Layers go as soon as they are unpacked and nobody else waits for them. What a failure left is kept for a day, because
//! who failed is asked again as a rule.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use jiff::Timestamp;
use muster_image::{Blob, Digest};

use crate::folder::Folder;

/// So long after its last byte came, what nobody holds is rubbish.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// So much of the disk is left to others.
const LEFT: u64 = 256 << 20;

/// The layout, and who is at work in it. One agent works in a folder, so the locks are in its memory.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    turns: Mutex<HashMap<Digest, Weak<tokio::sync::Mutex<()>>>>,
    held: Mutex<HashMap<Digest, usize>>,
}

impl Store {
    /// The store in an agent's folder. Nothing is made before something is pulled.
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

    /// Whether it is there. Its content is looked at when it is unpacked.
    pub(super) fn has(&self, blob: &Blob) -> bool {
        fs::metadata(self.blob(&blob.digest)).is_ok_and(|facts| facts.is_file() && facts.len() == blob.size)
    }

    /// How much of it has come.
    fn so_far(&self, blob: &Blob) -> u64 {
        fs::metadata(self.partial(&blob.digest)).map_or(0, |facts| facts.len())
    }

    /// Who fetches a blob holds this, one at a time; the others find it afterwards.
    pub(super) fn turn(&self, digest: &Digest) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().expect("no holder of this lock can panic");
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(digest).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(*digest, Arc::downgrade(&turn));
        turn
    }

    /// Keeps these from being removed.
    pub(super) fn hold(self: &Arc<Self>, layers: Vec<Digest>) -> Hold {
        let mut held = self.held.lock().expect("no holder of this lock can panic");
        for layer in &layers {
            *held.entry(*layer).or_default() += 1;
        }
        drop(held);
        Hold { store: self.clone(), layers, finished: AtomicBool::new(false) }
    }

    /// Whether the disk has room for what is missing of these, and for as much again when they are unpacked. An error says what
    /// to do.
    pub(super) fn has_room(&self, layers: &[Blob]) -> Result<(), String> {
        let missing: u64 = layers
            .iter()
            .filter(|blob| !self.has(blob))
            .map(|blob| blob.size.saturating_sub(self.so_far(blob)))
            .sum();
        let unpacked: u64 = layers.iter().map(|blob| blob.size).sum();
        let needed = missing.saturating_add(unpacked).saturating_add(LEFT);
        let disk = rustix::fs::statvfs(&self.folder).map_err(|error| error.to_string())?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= needed {
            return Ok(());
        }
        let megabytes = |bytes: u64| bytes >> 20;
        Err(format!(
            "the node's disk has {} MB free, and the image needs {} MB: remove something there",
            megabytes(free),
            megabytes(needed)
        ))
    }

    /// Removes what nobody holds and nobody has come back for.
    pub(super) fn sweep(&self, now: Timestamp) {
        let held = self.held.lock().expect("no holder of this lock can panic");
        let names: Vec<String> = held.keys().map(Digest::hex).collect();
        for folder in [self.blobs(), self.folder.join("partial")] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let modified = entry.metadata().and_then(|facts| facts.modified());
                let age =
                    modified.ok().and_then(|at| std::time::SystemTime::from(now).duration_since(at).ok());
                let kept = name.to_str().is_some_and(|name| names.iter().any(|held| held == name));
                if !kept && age.is_some_and(|age| age > KEPT) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
}

/// Layers that somebody is about to unpack.
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

    /// They were unpacked.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.store.held.lock().expect("no holder of this lock can panic");
        for layer in &self.layers {
            let left = held.get_mut(layer).map_or(0, |count| {
                *count -= 1;
                *count
            });
            if left == 0 {
                held.remove(layer);
                if self.finished.load(Ordering::Relaxed) {
                    // One that cannot be removed goes with the next sweep.
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
    fn what_a_failure_left_is_kept_for_a_day() {
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
    fn an_image_that_does_not_fit_is_known_not_to_before_it_is_fetched() {
        let parent = tempfile::tempdir().unwrap();
        let store = store(&parent);
        let blob = |size| Blob { digest: Digest::of(b"layer"), size };
        store.has_room(&[blob(1 << 10)]).unwrap();
        let said = store.has_room(&[blob(1 << 60)]).unwrap_err();
        assert!(said.contains("MB free") && said.contains("remove something"), "{said}");
    }
}
