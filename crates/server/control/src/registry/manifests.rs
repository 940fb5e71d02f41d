//! Manifests that were read lately. One is asked for by every node that pulls, and its bytes never change.
//!
//! What is remembered is forgotten within two seconds, and at once where this server changes anything in the repository. With several
//! servers on one database only digests are remembered: a tag that another server moved must be seen by the next request. A read
//! that began before a change does not bring back what the change replaced: the edition that it began under is not the
//! present one any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_db::ManifestContent;
use muster_ids::RepositoryId;

const LIFETIME: Duration = Duration::from_secs(2);
/// Bytes of all that is remembered.
const MOST: usize = 16 << 20;
/// What one takes beside its content.
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
    /// What is remembered; else the edition under which to read and remember.
    pub(crate) fn recall(&self, key: &Key) -> Result<Arc<ManifestContent>, u64> {
        let edition = self.edition.load(Ordering::Acquire);
        let held = self.held.lock().expect("no holder of this lock can panic");
        match held.found.get(key) {
            Some((at, found)) if at.elapsed() < LIFETIME => Ok(found.clone()),
            _ => Err(edition),
        }
    }

    /// Remembers what was read under this edition.
    pub(crate) fn remember(&self, edition: u64, key: Key, found: Arc<ManifestContent>) {
        let mut held = self.held.lock().expect("no holder of this lock can panic");
        if self.edition.load(Ordering::Acquire) != edition {
            return;
        }
        if held.bytes > MOST {
            *held = Held::default();
        }
        held.bytes += found.content.len() + OVERHEAD;
        held.found.insert(key, (Instant::now(), found));
    }

    /// Something changed.
    pub(crate) fn forget(&self) {
        let mut held = self.held.lock().expect("no holder of this lock can panic");
        self.edition.fetch_add(1, Ordering::AcqRel);
        *held = Held::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_ids::World;

    fn manifest(text: &'static str) -> Arc<ManifestContent> {
        Arc::new(ManifestContent { digest: text.to_owned(), media_type: String::new(), content: text.into() })
    }

    #[test]
    fn a_read_that_began_before_a_change_is_not_remembered() {
        let (manifests, key) = (Manifests::default(), (World::for_tests(1).id(), "v1".to_owned()));
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
