//! The root keys, under which everything else is encrypted, from a file that only the server can read.
//!
//! The interface for an HSM or a key service is this type's `wrap` and `unwrap`: no root key leaves it. A file holds several
//! keys, so that all replicas can have a new one before any of them uses it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_ids::Env;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// Errors of root keys.
#[derive(Debug, thiserror::Error)]
pub enum RootKeyError {
    /// The file cannot be read or written.
    #[error("the root key file {path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: std::io::Error,
    },
    /// The file is accessible to others.
    #[error("the root key file {path} can be read by others (mode {mode:o}): run `chmod 600 {path}`")]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Mode of the file.
        mode: u32,
    },
    /// The file has invalid content.
    #[error("the root key file {path} is damaged: {why}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        why: String,
    },
    /// Something was sealed under a key that is not in the file.
    #[error(
        "the root key {0} is not in the root key file: copy the file from another replica or from the backup"
    )]
    Missing(String),
    /// A wrapped key cannot be opened.
    #[error("a key could not be unwrapped: the root key file does not belong to this database")]
    Mismatch,
    /// A key is still in use.
    #[error("{0}")]
    InUse(String),
}

#[derive(Serialize, Deserialize)]
struct File {
    /// Key for new wrappings.
    active: String,
    /// All keys, in base64.
    keys: BTreeMap<String, String>,
}

struct Loaded {
    active: String,
    keys: BTreeMap<String, Arc<Zeroizing<Vec<u8>>>>,
    modified: Option<SystemTime>,
}

/// The root keys of a server.
pub struct RootKeys {
    path: PathBuf,
    loaded: RwLock<Loaded>,
}

impl RootKeys {
    /// Loads the file; creates it with one new key if it is missing and `create` is set.
    pub fn open(path: &Path, create: bool, env: &Env) -> Result<Self, RootKeyError> {
        if create && !path.exists() {
            let id = key_id(env);
            let file = File { active: id.clone(), keys: BTreeMap::from([(id, fresh(env))]) };
            write(path, &file, true)?;
        }
        Ok(Self { path: path.to_owned(), loaded: RwLock::new(load(path)?) })
    }

    /// Reloads the file if it has changed; returns whether it had.
    pub fn reload(&self) -> Result<bool, RootKeyError> {
        let modified = modified(&self.path);
        if modified == self.loaded.read().modified {
            return Ok(false);
        }
        let fresh = load(&self.path)?;
        *self.loaded.write() = fresh;
        Ok(true)
    }

    /// Returns the key for new wrappings.
    pub fn active(&self) -> String {
        self.loaded.read().active.clone()
    }

    fn key(&self, id: &str) -> Result<Arc<Zeroizing<Vec<u8>>>, RootKeyError> {
        let loaded = self.loaded.read();
        loaded.keys.get(id).cloned().ok_or_else(|| RootKeyError::Missing(id.to_owned()))
    }

    /// Wraps `plain` under the active key; also returns that key's id.
    pub(crate) fn wrap(&self, owner: &str, plain: &[u8]) -> Result<(String, Vec<u8>), RootKeyError> {
        let id = self.active();
        let key = self.key(&id)?;
        Ok((id, seal(&key, owner.as_bytes(), plain).ok_or(RootKeyError::Mismatch)?))
    }

    /// Unwraps a key that `id` wrapped for `owner`.
    pub(crate) fn unwrap(
        &self,
        id: &str,
        owner: &str,
        wrapped: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, RootKeyError> {
        let key = self.key(id)?;
        open(&key, owner.as_bytes(), wrapped).ok_or(RootKeyError::Mismatch)
    }

    /// Adds a new key to a file without using it yet: the first step where several replicas have the file.
    pub fn add(path: &Path, env: &Env) -> Result<String, RootKeyError> {
        let mut file = read(path)?;
        let id = key_id(env);
        file.keys.insert(id.clone(), fresh(env));
        write(path, &file, false)?;
        Ok(id)
    }

    /// Activates a key of the file for new wrappings; running servers notice and rewrap everything.
    pub fn activate(path: &Path, id: &str) -> Result<(), RootKeyError> {
        let mut file = read(path)?;
        if !file.keys.contains_key(id) {
            return Err(RootKeyError::Missing(id.to_owned()));
        }
        file.active = id.to_owned();
        write(path, &file, false)
    }

    /// Removes a key that wraps nothing any more; the caller has checked the database.
    pub fn retire(path: &Path, id: &str, still_wrapped: i64) -> Result<(), RootKeyError> {
        let mut file = read(path)?;
        if file.active == id {
            return Err(RootKeyError::InUse(format!(
                "the root key {id} is the active one: activate another first"
            )));
        }
        if still_wrapped > 0 {
            return Err(RootKeyError::InUse(format!(
                "{still_wrapped} keys are still wrapped by {id}: a running server rewraps them within a minute of `activate`"
            )));
        }
        file.keys.remove(id).ok_or_else(|| RootKeyError::Missing(id.to_owned()))?;
        write(path, &file, false)
    }

    /// Returns the ids in a file, the active one first.
    pub fn list(path: &Path) -> Result<Vec<String>, RootKeyError> {
        let file = read(path)?;
        let others = file.keys.keys().filter(|id| **id != file.active).cloned();
        Ok(std::iter::once(file.active.clone()).chain(others).collect())
    }
}

fn key_id(env: &Env) -> String {
    format!("rk-{}", muster_model::hex::encode(&env.bytes::<4>()))
}

fn fresh(env: &Env) -> String {
    let mut bytes: [u8; 32] = env.bytes();
    let text = STANDARD.encode(bytes);
    bytes.zeroize();
    text
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn read(path: &Path) -> Result<File, RootKeyError> {
    let file = |error| RootKeyError::File { path: path.to_owned(), error };
    let mode = std::fs::metadata(path).map_err(file)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(RootKeyError::Exposed { path: path.to_owned(), mode });
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(file)?);
    serde_json::from_str(&text)
        .map_err(|error| RootKeyError::Damaged { path: path.to_owned(), why: error.to_string() })
}

fn load(path: &Path) -> Result<Loaded, RootKeyError> {
    let modified = modified(path);
    let file = read(path)?;
    let damaged = |why: &str| RootKeyError::Damaged { path: path.to_owned(), why: why.to_owned() };
    let mut keys = BTreeMap::new();
    for (id, text) in &file.keys {
        let bytes = STANDARD.decode(text).map_err(|_| damaged("a key is not base 64"))?;
        if bytes.len() != 32 {
            return Err(damaged("a key is not 32 bytes"));
        }
        keys.insert(id.clone(), Arc::new(Zeroizing::new(bytes)));
    }
    if !keys.contains_key(&file.active) {
        return Err(damaged("the active key is not among the keys"));
    }
    Ok(Loaded { active: file.active, keys, modified })
}

/// Writes a new file and renames it: a crash leaves the old or the new one, never a partial one.
fn write(path: &Path, file: &File, only_if_absent: bool) -> Result<(), RootKeyError> {
    let fail = |error| RootKeyError::File { path: path.to_owned(), error };
    let text = Zeroizing::new(serde_json::to_string_pretty(file).expect("a key file is JSON"));
    let target = if only_if_absent { path.to_owned() } else { path.with_extension("new") };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).mode(0o600);
    if only_if_absent {
        options.create_new(true)
    } else {
        options.create(true).truncate(true)
    };
    let mut out = options.open(&target).map_err(fail)?;
    out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).map_err(fail)?;
    if !only_if_absent {
        std::fs::rename(&target, path).map_err(fail)?;
    }
    Ok(())
}

/// Encrypts with AES-256-GCM and a random nonce, which is prepended.
pub(crate) fn seal(key: &[u8], aad: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    let key = RandomizedNonceKey::new(&AES_256_GCM, key).ok()?;
    let mut text = plain.to_vec();
    let nonce = key.seal_in_place_append_tag(Aad::from(aad), &mut text).ok()?;
    let mut sealed = nonce.as_ref().to_vec();
    sealed.extend(text);
    Some(sealed)
}

/// Decrypts; returns `None` when the key or the context differs, or a bit has changed.
pub(crate) fn open(key: &[u8], aad: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let (nonce, text) = sealed.split_at_checked(12)?;
    let key = RandomizedNonceKey::new(&AES_256_GCM, key).ok()?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = Zeroizing::new(text.to_vec());
    let length = key.open_in_place(nonce, Aad::from(aad), &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_rotate_in_three_steps_and_old_wrappings_stay_readable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.key");
        let env = Env::for_tests(5);
        let keys = RootKeys::open(&path, true, &env).unwrap();
        let (first, wrapped) = keys.wrap("ten", b"secret").unwrap();
        let second = RootKeys::add(&path, &env).unwrap();
        RootKeys::activate(&path, &second).unwrap();
        assert_eq!(keys.active(), first, "a running server goes on until it reloads");
        let keys = RootKeys::open(&path, false, &env).unwrap();
        assert_eq!(keys.active(), second);
        assert_eq!(keys.unwrap(&first, "ten", &wrapped).unwrap().as_slice(), b"secret");
        assert!(keys.unwrap(&first, "other", &wrapped).is_err(), "a wrapping belongs to its owner");
        assert!(RootKeys::retire(&path, &second, 0).is_err(), "the active key cannot go");
        assert!(RootKeys::retire(&path, &first, 1).is_err(), "nor one that still wraps something");
        RootKeys::retire(&path, &first, 0).unwrap();
        let keys = RootKeys::open(&path, false, &env).unwrap();
        assert!(matches!(keys.unwrap(&first, "ten", &wrapped), Err(RootKeyError::Missing(_))));
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root.key");
        RootKeys::open(&path, true, &Env::for_tests(5)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            RootKeys::open(&path, false, &Env::for_tests(5)),
            Err(RootKeyError::Exposed { .. })
        ));
    }

    #[test]
    fn a_changed_bit_does_not_open() {
        let key = [7u8; 32];
        let mut sealed = seal(&key, b"context", b"plain").unwrap();
        assert_eq!(open(&key, b"context", &sealed).unwrap().as_slice(), b"plain");
        assert!(open(&key, b"other", &sealed).is_none());
        *sealed.last_mut().unwrap() ^= 1;
        assert!(open(&key, b"context", &sealed).is_none());
        assert!(open(&key, b"context", b"short").is_none());
    }
}
