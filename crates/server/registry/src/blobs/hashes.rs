//! Cached SHA-256 states of unfinished uploads between appends.
//!
//! Only an optimization: a missing state is recomputed from the file.

use std::collections::HashMap;

use parking_lot::Mutex;
use uuid::Uuid;

use crate::hash::Hash;

/// Maximum number of cached states, of about 200 bytes each.
const MOST: usize = 1024;

/// An upload: its owner and its own id.
pub(super) type Key = (Uuid, Uuid);

#[derive(Default)]
pub(super) struct Hashes(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    entries: HashMap<Key, Entry>,
    turn: u64,
}

struct Entry {
    hash: Hash,
    length: u64,
    turn: u64,
}

impl Hashes {
    /// Takes the state after the first `length` bytes; discards one for any other length.
    pub(super) fn take(&self, key: Key, length: u64) -> Option<Hash> {
        let entry = self.lock().entries.remove(&key)?;
        (entry.length == length).then_some(entry.hash)
    }

    /// Caches a state and evicts the oldest one if there are too many.
    pub(super) fn keep(&self, key: Key, hash: Hash, length: u64) {
        let mut kept = self.lock();
        kept.turn += 1;
        let turn = kept.turn;
        kept.entries.insert(key, Entry { hash, length, turn });
        if kept.entries.len() > MOST {
            let oldest = kept.entries.iter().min_by_key(|(_, entry)| entry.turn).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                kept.entries.remove(&oldest);
            }
        }
    }

    /// Drops the state of an upload that no longer exists.
    pub(super) fn forget(&self, key: Key) {
        self.lock().entries.remove(&key);
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Kept> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    fn key(number: usize) -> Key {
        (Uuid::nil(), Uuid::from_u128(number as u128))
    }

    #[test]
    fn a_hash_of_another_length_is_never_given_out() {
        let hashes = Hashes::default();
        let mut hash = Hash::new();
        hash.update(b"abc");
        hashes.keep(key(1), hash.clone(), 3);
        assert!(hashes.take(key(1), 4).is_none());
        assert!(hashes.take(key(1), 3).is_none(), "it was thrown away");
        hashes.keep(key(1), hash, 3);
        assert_eq!(hashes.take(key(1), 3).unwrap().digest(), Digest::of(b"abc"));
    }

    #[test]
    fn the_oldest_goes_first() {
        let hashes = Hashes::default();
        for number in 0..MOST {
            hashes.keep(key(number), Hash::new(), 0);
        }
        hashes.keep(key(0), Hash::new(), 0);
        hashes.keep(key(MOST), Hash::new(), 0);
        assert!(hashes.take(key(0), 0).is_some(), "it was used again");
        assert!(hashes.take(key(1), 0).is_none());
        assert!(hashes.take(key(2), 0).is_some());
        assert_eq!(hashes.lock().entries.len(), MOST - 2);
    }
}
