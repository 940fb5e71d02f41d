//! Passwords: Argon2id, off the async threads, and never inside a transaction.

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use muster_api::{Code, Problem};
use muster_ids::World;
use tokio::sync::Semaphore;

use crate::refuse::Result;

/// Each check takes 19 MiB and a core for tens of milliseconds; two at a time leave the server alive under a storm of logins.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

fn failed() -> Problem {
    Problem::new(Code::Internal, "the password could not be processed")
}

/// The hash to keep.
pub(crate) async fn hash(world: &World, password: String) -> Result<String> {
    let salt: [u8; 16] = world.bytes();
    let _turn = AT_ONCE.acquire().await.map_err(|_| failed())?;
    let hashed = tokio::task::spawn_blocking(move || {
        let hash: PasswordHash =
            Argon2::default().hash_password_with_salt(password.as_bytes(), &salt).ok()?;
        Some(hash.to_string())
    });
    hashed.await.ok().flatten().ok_or_else(failed)
}

/// Whether the password fits. Without a hash it takes as long and says no: an address that does not exist must not
/// answer faster than one that does.
pub(crate) async fn verify(password: String, hash: Option<String>) -> Result<bool> {
    let _turn = AT_ONCE.acquire().await.map_err(|_| failed())?;
    let checked = tokio::task::spawn_blocking(move || match hash.as_deref().map(PasswordHash::new) {
        Some(Ok(hash)) => Argon2::default().verify_password(password.as_bytes(), &hash).is_ok(),
        Some(Err(_)) | None => {
            let spent: std::result::Result<PasswordHash, _> =
                Argon2::default().hash_password_with_salt(password.as_bytes(), b"nobody by this name");
            drop(spent);
            false
        }
    });
    checked.await.map_err(|_| failed())
}
