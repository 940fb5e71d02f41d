//! Envelope encryption: a key for each tenant and one for the platform, each wrapped by a root key.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::hmac;
use muster_db::{SealingKey, Store};
use muster_ids::Env;
use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::error::{KeyError, Result};
use crate::root_key::{RootKeyError, RootKeys, open, seal};

/// Owner of resources without a tenant.
pub const PLATFORM: &str = "platform";

/// Returns the version of the owner's key that something is sealed with.
pub fn key_version(sealed: &[u8]) -> Option<i64> {
    sealed.first_chunk::<4>().map(|version| i64::from(u32::from_be_bytes(*version)))
}

type Key = Arc<Zeroizing<Vec<u8>>>;

/// Tenants' keys and the platform's, unwrapped on first use.
pub struct Envelope {
    root_keys: RootKeys,
    /// Unwrapped keys by owner and version: a version never changes, so entries never become stale.
    unwrapped: Mutex<HashMap<(String, i64), Key>>,
}

impl Envelope {
    /// Keys wrapped by these root keys.
    pub fn new(root_keys: RootKeys) -> Self {
        Self { root_keys, unwrapped: Mutex::default() }
    }

    /// Returns the root keys.
    pub fn root_keys(&self) -> &RootKeys {
        &self.root_keys
    }

    /// Generates a key for `owner`, wrapped, to be written in the transaction that needs it.
    pub fn make(&self, env: &Env, owner: &str, key_version: i64) -> Result<SealingKey> {
        let plain = Zeroizing::new(env.bytes::<32>().to_vec());
        let (root_key_id, wrapped) = self.root_keys.wrap(owner, &plain)?;
        Ok(SealingKey { owner: owner.to_owned(), key_version, root_key_id, wrapped })
    }

    /// Rewraps the key with the active root key.
    pub fn rewrap(&self, key: &SealingKey) -> std::result::Result<SealingKey, RootKeyError> {
        let plain = self.root_keys.unwrap(&key.root_key_id, &key.owner, &key.wrapped)?;
        let (root_key_id, wrapped) = self.root_keys.wrap(&key.owner, &plain)?;
        Ok(SealingKey { root_key_id, wrapped, ..key.clone() })
    }

    fn unwrap(&self, key: &SealingKey) -> Result<Key> {
        let at = (key.owner.clone(), key.key_version);
        if let Some(known) = self.unwrapped.lock().get(&at) {
            return Ok(known.clone());
        }
        let plain = self.root_keys.unwrap(&key.root_key_id, &key.owner, &key.wrapped)?;
        let plain = Arc::new(plain);
        self.unwrapped.lock().insert(at, plain.clone());
        Ok(plain)
    }

    /// Seals `plain` for `owner`; the same `context` is required to open it.
    pub async fn seal(&self, store: &Store, owner: &str, context: &str, plain: &[u8]) -> Result<Vec<u8>> {
        let newest = store.sealing_key_newest(owner).await?;
        let newest = newest.ok_or(KeyError::Missing)?;
        let key = self.unwrap(&newest)?;
        let mut sealed = u32::try_from(newest.key_version).unwrap_or(u32::MAX).to_be_bytes().to_vec();
        let text = seal(&key, context.as_bytes(), plain);
        sealed.extend(text.ok_or_else(|| KeyError::from(RootKeyError::Mismatch))?);
        Ok(sealed)
    }

    /// Opens the output of `seal`.
    pub async fn open(
        &self,
        store: &Store,
        owner: &str,
        context: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>> {
        let mismatch = || KeyError::from(RootKeyError::Mismatch);
        let (version, text) = sealed.split_first_chunk::<4>().ok_or_else(mismatch)?;
        let version = i64::from(u32::from_be_bytes(*version));
        let known = self.unwrapped.lock().get(&(owner.to_owned(), version)).cloned();
        let key = match known {
            Some(key) => key,
            None => {
                let wrapped = store.sealing_key_lookup(owner, version).await?;
                self.unwrap(&wrapped.ok_or_else(mismatch)?)?
            }
        };
        open(&key, context.as_bytes(), text).ok_or_else(mismatch)
    }

    /// Derives a key for one purpose, the same on every replica and after every rotation of the root key.
    pub async fn derive(&self, store: &Store, purpose: &str) -> Result<Vec<u8>> {
        let known = self.unwrapped.lock().get(&(PLATFORM.to_owned(), 1)).cloned();
        let key = match known {
            Some(key) => key,
            None => {
                let wrapped = store.sealing_key_lookup(PLATFORM, 1).await?;
                self.unwrap(&wrapped.ok_or_else(|| KeyError::from(RootKeyError::Mismatch))?)?
            }
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Ok(hmac::sign(&key, purpose.as_bytes()).as_ref().to_vec())
    }

    /// Evicts the unwrapped keys of a deleted owner.
    pub fn forget(&self, owner: &str) {
        self.unwrapped.lock().retain(|(of, _), _| of != owner);
    }
}
