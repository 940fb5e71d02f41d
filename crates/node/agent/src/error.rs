//! Errors that end an agent or keep it from starting. Each message states the remedy.

use std::path::{Path, PathBuf};

use crate::link::CallError;

/// Reason why the agent ends.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The request cannot be fulfilled.
    #[error("{0}")]
    Refused(String),
    /// A file could not be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// Path.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// The server did not let the machine join.
    #[error("the machine could not join: {0}")]
    Join(CallError),
    /// The server no longer accepts the node.
    #[error(
        "the server rejects this node ({0}); the machine was left unchanged. To return it, enrol it again: \
         `muster agent join --force` with a fresh token"
    )]
    Retired(String),
    /// The certificate expired before it could be renewed.
    #[error(
        "the node's certificate expired at {0} before it could be renewed; enrol the machine again: `muster \
         agent join --force` with a fresh token"
    )]
    CertificateEnded(jiff::Timestamp),
}

impl AgentError {
    pub fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    /// Returns the exit code of the program: 3 if a new enrolment is needed, so that a supervisor does not restart it in
    /// vain.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Retired(_) | Self::CertificateEnded(_) => 3,
            Self::Refused(_) | Self::File { .. } | Self::Join(_) => 1,
        }
    }
}
