//! Mapping of store errors to problems, in one place.

use muster_api::{Code, Problem};
use muster_db::StoreError;

/// Result of a use case.
pub type Result<T> = std::result::Result<T, Problem>;

/// Maps a store error to a problem.
pub(crate) fn refuse(error: StoreError) -> Problem {
    match error {
        StoreError::Conflict(what) => {
            tracing::debug!(what, "a constraint refused the row");
            Problem::new(
                Code::NameTaken,
                "something else has this name: choose another, or change the other first",
            )
        }
        StoreError::Gone(_) => Problem::not_found("resource"),
        StoreError::Stale => Problem::new(
            Code::VersionMismatch,
            "it has changed since you read it: read it again, and repeat with its new version in If-Match",
        ),
        StoreError::Fenced => {
            Problem::new(Code::Unavailable, "another server took over this work; ask again")
        }
        StoreError::Unheard => Problem::new(
            Code::Unavailable,
            "the database was lost while it committed, so it may have happened: repeat with the same Idempotency-Key",
        ),
        StoreError::Unavailable(why) => {
            tracing::warn!(why, "the database is not available");
            Problem::new(Code::Unavailable, "the database cannot be reached now; repeat in a moment")
        }
        StoreError::Nul => {
            Problem::new(Code::InvalidRequest, "a text holds the character U+0000, which cannot be stored")
        }
        StoreError::Full(why) => {
            tracing::error!(why, "the disk of the database is full");
            Problem::new(
                Code::StorageFull,
                "the disk of the server's database is full and nothing was written: an operator frees space, then repeat",
            )
        }
        error @ (StoreError::Corrupt(_) | StoreError::TooNew { .. } | StoreError::Other(_)) => {
            tracing::error!(%error, "the store failed");
            Problem::new(Code::Internal, "the server failed; give the correlation id to the operator")
        }
    }
}
