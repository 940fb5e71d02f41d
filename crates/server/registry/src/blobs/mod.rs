//! The content of all repositories, on a file system that several servers may share.
//!
//! ```text
//! FOLDER/                              0700: tenants' content, accessible only to the server
//!   storage.id                         a UUID, created once and shared by all servers on the folder
//!   database.id                        the id of the database with the rows for these files
//!   uploads/OWNER/UPLOAD               0600, growing; locked during an append, released when that process dies
//!   blobs/3f/3f9a…-UUID                0444, finished: named by its digest and a UUID that is never reused
//!   quarantine/3f9a…-UUID              a damaged file under its old name; no row names it
//! ```
//!
//! The name of a finished file is never reused. The database maps a digest to the one file that holds it; two pushes of the
//! same content create two files, and the database keeps one. Naming files by digest alone was rejected: garbage collection
//! would race with a new push of the same content, and could remove the bytes of the newer push.
//!
//! # Durability
//!
//! After [`Blobs::upload_finish`] or [`Blobs::put`] returns, the caller commits a row that names the file, and after a power
//! failure a row without its file would be a lost blob. So before they return, the file is synced, then renamed into
//! `blobs/`, then the receiving directory is synced. That is two syncs per blob, for these reasons:
//!
//! - The file must be synced *before* the rename. The reverse order saves the second sync on ext4 and XFS, because their
//!   journals include the rename when the file is synced after it; but a power failure in between leaves a file in `blobs/`
//!   under a digest without its bytes, which must never happen.
//! - Only a sync of the directory guarantees that a rename is durable. ext4 and XFS commit it within seconds on their own,
//!   which is too late for the row.
//! - The 256 directories below `blobs/` are created and synced when the folder is opened, so that no blob has to wait for
//!   the sync of a third directory.
//!
//! Measured on ext4 on a virtual disk, 100 files each: 0.21 ms for the file's sync alone and 0.34 ms for both at 4 KiB, 0.55
//! and 0.66 ms at 1 MiB, no difference at 16 MiB.
//!
//! The bytes of an upload are not synced before it is finished. After a power failure an upload may be shorter than
//! acknowledged, or contain zeros: the client requests its length and resumes, and the digest is verified at the end.
//!
//! # Locking
//!
//! Every append holds the upload's lock (`flock`), so the file system must have locks that work across its servers; one
//! without locks is refused. An upload never shrinks, so the SHA-256 state of the received bytes is cached in memory between
//! appends; a server without the state, or with one for another length, reads the file again from its start.

mod damage;
mod error;
mod folder;
mod hashes;
mod name;
mod read;
mod sweep;
mod upload;
mod writing;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use muster_ids::Env;
use uuid::Uuid;

pub use damage::Damage;
pub use error::{StorageError, UploadError};
use hashes::Hashes;
pub use read::Reading;
pub use sweep::FoundFile;
pub use upload::Finished;

/// Hook for tests, called with the name of each point at which a server may be killed. The points are [`POINTS`].
pub type Reach = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Points at which a server may be killed: an upload is opened but not locked yet; bytes were appended; the complete content
/// was verified; it is synced; it is renamed.
pub const POINTS: [&str; 5] =
    ["blob:opened", "blob:appended", "blob:compared", "blob:synced", "blob:renamed"];

/// The content of all repositories. Clones share the same storage.
#[derive(Clone)]
pub struct Blobs(Arc<Inner>);

pub(crate) struct Inner {
    folder: PathBuf,
    identity: Uuid,
    /// The database it belongs to, once that is known.
    owner: OnceLock<Uuid>,
    env: Env,
    reach: Reach,
    hashes: Hashes,
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blobs").field("folder", &self.0.folder).finish_non_exhaustive()
    }
}

impl Blobs {
    /// Opens the folder and creates it if missing.
    pub async fn open(folder: impl Into<PathBuf>, env: Env) -> Result<Self, StorageError> {
        Self::open_reaching(folder, env, Arc::new(|_| ())).await
    }

    /// Does the same with a test hook, called wherever a server may be killed.
    pub async fn open_reaching(
        folder: impl Into<PathBuf>,
        env: Env,
        reach: Reach,
    ) -> Result<Self, StorageError> {
        let folder = folder.into();
        blocking(move || {
            let identity = folder::prepare(&folder, &env)?;
            Ok(Self(Arc::new(Inner {
                folder,
                identity,
                owner: OnceLock::new(),
                env,
                reach,
                hashes: Hashes::default(),
            })))
        })
        .await
    }

    /// Assigns the storage to a database unless it has an owner; returns the owner. Two databases on one storage would each
    /// treat the other's content as garbage.
    pub async fn belong_to(&self, database: Uuid) -> Result<Uuid, StorageError> {
        let store = self.0.clone();
        blocking(move || {
            let owner = folder::belong_to(&store.folder, database, &store.env)?;
            Ok(*store.owner.get_or_init(|| owner))
        })
        .await
    }

    /// Returns the identity of the storage: equal for all servers that share the folder, different for every other folder.
    pub fn identity(&self) -> Uuid {
        self.0.identity
    }
}

impl Inner {
    fn uploads(&self) -> PathBuf {
        self.folder.join(folder::UPLOADS)
    }

    fn upload_path(&self, owner: Uuid, upload: Uuid) -> PathBuf {
        self.uploads().join(owner.to_string()).join(upload.to_string())
    }

    fn blobs(&self) -> PathBuf {
        self.folder.join(folder::BLOBS)
    }

    /// Verifies that the folder is still the storage that was opened.
    fn ensure_ours(&self) -> Result<(), StorageError> {
        folder::open_ours(self).map(drop)
    }

    fn reach(&self, point: &'static str) {
        (self.reach)(point);
    }
}

/// Runs disk work on a thread that may block, and propagates its panics.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(tokio::task::spawn_blocking(work)).await
}

/// Returns the result of such work.
async fn joined<T>(work: impl Future<Output = Result<T, tokio::task::JoinError>>) -> T {
    match work.await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => panic!("the runtime ended before the work on a file did: {error}"),
        },
    }
}

/// Returns an adapter for `map_err` with the attempted action and its path.
fn at(verb: &str, path: &Path) -> impl FnOnce(std::io::Error) -> StorageError {
    let doing = format!("{verb} {}", path.display());
    move |error| StorageError::Storage { doing, error }
}
