//! Errors of use cases. They know no HTTP: the entry points render them as problem documents.

use std::fmt;

use muster_api::{Code, FieldError, Problem};
use muster_db::StoreError;
use muster_keys::KeyError;

/// Result of a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a use case was refused, or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The code.
    pub code: Code,
    /// Cause, and how to continue.
    pub detail: String,
    /// Errors by field, if there are several.
    pub fields: Vec<FieldError>,
}

impl Error {
    /// Returns an error with this code and detail.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), fields: Vec::new() }
    }

    /// Returns an error about one field.
    pub fn field(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        Self::new(Code::InvalidRequest, format!("{pointer}: {detail}"))
            .with_fields(vec![FieldError { pointer, detail }])
    }

    /// Returns the error for a resource that is absent or not visible: the text is the same for both, so it reveals nothing.
    pub fn not_found(noun: &str) -> Self {
        Self::new(Code::NotFound, format!("{noun} not found, or no access"))
    }

    /// Adds errors by field.
    pub fn with_fields(mut self, fields: Vec<FieldError>) -> Self {
        self.fields = fields;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.detail)
    }
}

impl std::error::Error for Error {}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self { errors: error.fields, ..Self::new(error.code, error.detail) }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict(what) => {
                tracing::debug!(what, "a constraint refused the row");
                Self::new(
                    Code::NameTaken,
                    "this name is already in use: choose another, or rename the other resource",
                )
            }
            StoreError::Gone(_) => Self::not_found("resource"),
            StoreError::Stale => Self::new(
                Code::VersionMismatch,
                "it has changed since you read it: read it again, and repeat with its new version in If-Match",
            ),
            StoreError::Fenced => Self::new(
                Code::Unavailable,
                "another server holds the lease of this work; repeat the request",
            ),
            StoreError::Unheard => Self::new(
                Code::Unavailable,
                "the database was lost during the commit, so the request may have taken effect: repeat with the same Idempotency-Key",
            ),
            StoreError::Unavailable(why) => {
                tracing::warn!(why, "the database is not available");
                Self::new(Code::Unavailable, "the database cannot be reached now; repeat in a moment")
            }
            StoreError::Nul => Self::new(
                Code::InvalidRequest,
                "a text contains the character U+0000, which cannot be stored",
            ),
            StoreError::Full(why) => {
                tracing::error!(why, "the disk of the database is full");
                Self::new(
                    Code::StorageFull,
                    "the disk of the server's database is full and nothing was written: ask an operator to free space, then repeat",
                )
            }
            error @ (StoreError::Corrupt(_) | StoreError::TooNew { .. } | StoreError::Other(_)) => {
                tracing::error!(%error, "the store failed");
                Self::new(Code::Internal, "the server failed; give the correlation id to the operator")
            }
        }
    }
}

/// The details of an error of keys concern the operator alone.
impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Store(error) => error.into(),
            KeyError::Missing => Self::not_found("key"),
            KeyError::Request(why) => Self::field("/csr", why),
            KeyError::Password => Self::new(Code::Internal, "the password could not be processed"),
            KeyError::Closed(error) => {
                tracing::error!(%error, "a key cannot be used");
                Self::new(
                    Code::Unavailable,
                    "the server cannot open its keys now; ask the operator to check its log",
                )
            }
            KeyError::Authority(error) => {
                tracing::error!(%error, "the certificate authority failed");
                Self::new(Code::Internal, "the server failed; give the correlation id to the operator")
            }
        }
    }
}
