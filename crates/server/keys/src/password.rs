//! Password hashing: Argon2id, off the async threads, and never inside a transaction.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use muster_ids::Env;
use tokio::sync::Semaphore;

use crate::error::{KeyError, Result};

/// Concurrent hash computations. Each takes 19 MiB and a core for tens of milliseconds; two at a time keep the server
/// responsive under a storm of logins.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Returns the hash to store.
pub async fn hash(env: &Env, password: String) -> Result<String> {
    let salt: [u8; 16] = env.bytes();
    let _turn = AT_ONCE.acquire().await.map_err(|_| KeyError::Password)?;
    let hashed = tokio::task::spawn_blocking(move || {
        let hash: PasswordHash =
            Argon2::default().hash_password_with_salt(password.as_bytes(), &salt).ok()?;
        Some(hash.to_string())
    });
    hashed.await.ok().flatten().ok_or(KeyError::Password)
}

/// Reports whether the password matches. Without a hash it takes as long and returns false: an unknown address must not
/// answer faster than a known one.
pub async fn verify(password: String, hash: Option<String>) -> Result<bool> {
    let _turn = AT_ONCE.acquire().await.map_err(|_| KeyError::Password)?;
    let checked = tokio::task::spawn_blocking(move || match hash.as_deref().map(PasswordHash::new) {
        Some(Ok(hash)) => Argon2::default().verify_password(password.as_bytes(), &hash).is_ok(),
        Some(Err(_)) | None => {
            let spent: std::result::Result<PasswordHash, _> =
                Argon2::default().hash_password_with_salt(password.as_bytes(), b"no user of that name");
            drop(spent);
            false
        }
    });
    checked.await.map_err(|_| KeyError::Password)
}
