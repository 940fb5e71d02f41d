//! A mutex for each key: work on one thing goes one at a time, and does not wait for work on another.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;

type Entries<K> = HashMap<K, Arc<tokio::sync::Mutex<()>>>;

/// The mutexes that are held or waited for.
pub(crate) struct KeyedLocks<K>(Mutex<Entries<K>>);

/// A key, held until this is dropped.
pub(crate) struct KeyedGuard<'l, K: Copy + Eq + Hash> {
    locks: &'l KeyedLocks<K>,
    key: K,
    held: Option<OwnedMutexGuard<()>>,
}

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash> KeyedLocks<K> {
    fn entries(&self) -> MutexGuard<'_, Entries<K>> {
        self.0.lock()
    }

    /// Waits until the key is free.
    pub(crate) async fn lock(&self, key: K) -> KeyedGuard<'_, K> {
        let lock = self.entries().entry(key).or_default().clone();
        // Made before the wait: a request that is dropped while it waits leaves no entry either.
        let mut guard = KeyedGuard { locks: self, key, held: None };
        guard.held = Some(lock.lock_owned().await);
        guard
    }
}

impl<K: Copy + Eq + Hash> Drop for KeyedGuard<'_, K> {
    fn drop(&mut self) {
        let mut entries = self.locks.entries();
        self.held = None;
        // Only the map has it: no request holds it or waits for it.
        if entries.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_key_is_held_once_and_leaves_no_entry() {
        let locks = KeyedLocks::default();
        let held = locks.lock(1).await;
        let _other = locks.lock(2).await;
        let waits = tokio::time::timeout(Duration::from_millis(20), locks.lock(1)).await;
        assert!(waits.is_err(), "the key is held");
        assert_eq!(locks.entries().len(), 2, "who stopped waiting takes no held entry away");
        drop(held);
        assert_eq!(locks.entries().len(), 1);
        drop(locks.lock(1).await);
        assert_eq!(locks.entries().len(), 1);
    }

    #[tokio::test]
    async fn a_request_that_is_dropped_leaves_no_entry() {
        let locks = KeyedLocks::default();
        let work = async {
            let _held = locks.lock(1).await;
            std::future::pending::<()>().await;
        };
        let waiting = async {
            let _held = locks.lock(1).await;
        };
        let both = futures::future::join(work, waiting);
        assert!(tokio::time::timeout(Duration::from_millis(20), both).await.is_err());
        assert!(locks.entries().is_empty());
    }
}
