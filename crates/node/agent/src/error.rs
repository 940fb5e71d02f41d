//! What ends an agent or keeps it from starting, each as a sentence that says what to do.

use std::path::{Path, PathBuf};

use crate::link::CallError;

/// Why the agent does not go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Something that was asked for cannot be.
    #[error("{0}")]
    Refused(String),
    /// A file could not be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The server did not let the machine join.
    #[error("the machine could not join: {0}")]
    Join(CallError),
    /// The server does not know the node any more.
    #[error(
        "the server does not take this node any more ({0}); what is on the machine was left as it is. If it should come \
         back, enrol it anew: `muster agent join --force` with a fresh token"
    )]
    Retired(String),
    /// The certificate ended before it could be renewed.
    #[error(
        "the node's certificate ended at {0} before it could be renewed; enrol the machine anew: `muster agent join \
         --force` with a fresh token"
    )]
    CertificateEnded(jiff::Timestamp),
}

impl AgentError {
    pub(crate) fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    /// The exit code of the program: 3 where a new enrolment is needed, so that a supervisor can tell that starting
    /// again will not help.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Retired(_) | Self::CertificateEnded(_) => 3,
            Self::Refused(_) | Self::File { .. } | Self::Join(_) => 1,
        }
    }
}
