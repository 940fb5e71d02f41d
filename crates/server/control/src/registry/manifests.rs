//! Cache of recently read manifests. Every pulling node requests one, and its bytes never change.
//!
//! Entries expire after two seconds, and at once when this server changes anything in the repository. With several servers
//! on one database only digests are cached: a tag moved by another server must take effect on the next request. A read that
//! started before a change must not restore the replaced value: its edition is no longer the current one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use muster_db::ManifestContent;
use muster_ids::RepositoryId;
use parking_lot::Mutex;

const LIFETIME: Duration = Duration::from_secs(2);
/// Maximum total size of the cache in bytes.
const MOST: usize = 16 << 20;
/// Overhead per entry in bytes.
const OVERHEAD: usize = 512;

#[derive(Default)]
pub(crate) struct Manifests {
    edition: AtomicU64,
    held: Mutex<Held>,
}

type Key = (RepositoryId, String);

#[derive(Default)]
struct Held {
    bytes: usize,
    found: HashMap<Key, (Instant, Arc<ManifestContent>)>,
}

impl Manifests {
    /// Returns the cached manifest, or else the edition for the read.
    pub(crate) fn recall(&self, key: &Key) -> Result<Arc<ManifestContent>, u64> {
        let edition = self.edition.load(Ordering::Acquire);
        let held = self.held.lock();
        match held.found.get(key) {
            Some((at, found)) if at.elapsed() < LIFETIME => Ok(found.clone()),
            _ => Err(edition),
        }
    }

    /// Caches a manifest that was read under this edition.
    pub(crate) fn remember(&self, edition: u64, key: Key, found: Arc<ManifestContent>) {
        let mut held = self.held.lock();
        if self.edition.load(Ordering::Acquire) != edition {
            return;
        }
        if held.bytes > MOST {
            *held = Held::default();
        }
        held.bytes += found.content.len() + OVERHEAD;
        held.found.insert(key, (Instant::now(), found));
    }

    /// Invalidates the cache.
    pub(crate) fn forget(&self) {
        let mut held = self.held.lock();
        self.edition.fetch_add(1, Ordering::AcqRel);
        *held = Held::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_ids::Env;

    fn manifest(text: &'static str) -> Arc<ManifestContent> {
        Arc::new(ManifestContent { digest: text.to_owned(), media_type: String::new(), content: text.into() })
    }

    #[test]
    fn a_read_that_began_before_a_change_is_not_remembered() {
        let (manifests, key) = (Manifests::default(), (Env::for_tests(1).id(), "v1".to_owned()));
        let edition = manifests.recall(&key).unwrap_err();
        manifests.forget();
        manifests.remember(edition, key.clone(), manifest("old"));
        let edition = manifests.recall(&key).unwrap_err();
        manifests.remember(edition, key.clone(), manifest("new"));
        assert_eq!(manifests.recall(&key).unwrap().digest, "new");
        manifests.forget();
        assert!(manifests.recall(&key).is_err());
    }
}
