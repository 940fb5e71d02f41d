//! Mapping of store errors to problems, in one place.

use muster_api::{Code, Problem};
use muster_db::StoreError;
use muster_keys::KeyError;

/// Result of a use case.
pub type Result<T> = std::result::Result<T, Problem>;

/// Maps a store error to a problem.
pub(crate) fn refuse(error: StoreError) -> Problem {
    match error {
        StoreError::Conflict(what) => {
            tracing::debug!(what, "a constraint refused the row");
            Problem::new(
                Code::NameTaken,
                "this name is already in use: choose another, or rename the other resource",
            )
        }
        StoreError::Gone(_) => Problem::not_found("resource"),
        StoreError::Stale => Problem::new(
            Code::VersionMismatch,
            "it has changed since you read it: read it again, and repeat with its new version in If-Match",
        ),
        StoreError::Fenced => {
            Problem::new(Code::Unavailable, "another server holds the lease of this work; repeat the request")
        }
        StoreError::Unheard => Problem::new(
            Code::Unavailable,
            "the database was lost during the commit, so the request may have taken effect: repeat with the same Idempotency-Key",
        ),
        StoreError::Unavailable(why) => {
            tracing::warn!(why, "the database is not available");
            Problem::new(Code::Unavailable, "the database cannot be reached now; repeat in a moment")
        }
        StoreError::Nul => {
            Problem::new(Code::InvalidRequest, "a text contains the character U+0000, which cannot be stored")
        }
        StoreError::Full(why) => {
            tracing::error!(why, "the disk of the database is full");
            Problem::new(
                Code::StorageFull,
                "the disk of the server's database is full and nothing was written: ask an operator to free space, then repeat",
            )
        }
        error @ (StoreError::Corrupt(_) | StoreError::TooNew { .. } | StoreError::Other(_)) => {
            tracing::error!(%error, "the store failed");
            Problem::new(Code::Internal, "the server failed; give the correlation id to the operator")
        }
    }
}

/// Maps an error of keys to a problem. Its details concern the operator alone.
pub(crate) fn refuse_key(error: KeyError) -> Problem {
    match error {
        KeyError::Store(error) => refuse(error),
        KeyError::Missing => Problem::not_found("key"),
        KeyError::Request(why) => Problem::field("/csr", why),
        KeyError::Password => Problem::new(Code::Internal, "the password could not be processed"),
        KeyError::Closed(error) => {
            tracing::error!(%error, "a key cannot be used");
            Problem::new(
                Code::Unavailable,
                "the server cannot open its keys now; ask the operator to check its log",
            )
        }
        KeyError::Authority(error) => {
            tracing::error!(%error, "the certificate authority failed");
            Problem::new(Code::Internal, "the server failed; give the correlation id to the operator")
        }
    }
}
