//! Errors of keys, without transport.

use muster_db::StoreError;

use crate::RootKeyError;

/// Failure of an operation on keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A key cannot be opened or used.
    #[error(transparent)]
    Closed(#[from] RootKeyError),
    /// The owner has no key.
    #[error("this owner has no key")]
    Missing,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A certificate request is not acceptable, for this reason.
    #[error("{0}")]
    Request(&'static str),
    /// The certificate authority failed.
    #[error("the certificate authority failed: {0}")]
    Authority(String),
    /// A password could not be hashed or compared.
    #[error("the password could not be processed")]
    Password,
}

/// Result of an operation on keys.
pub(crate) type Result<T> = std::result::Result<T, KeyError>;
