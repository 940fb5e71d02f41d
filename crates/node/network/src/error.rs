//! Network errors. Each message states the remedy.

use std::path::{Path, PathBuf};

/// Reason why a network is not as requested.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The request is invalid; nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// A file or folder could not be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A system program failed. It may have had partial effects; a retry completes them.
    #[error(transparent)]
    Program(#[from] muster_exec::Failed),
    /// A system program reported something unexpected.
    #[error("`{program}`: {said}")]
    Unexpected {
        /// Program and arguments.
        program: String,
        /// The report.
        said: String,
    },
    /// A namespace could not be entered, created or removed.
    #[error("the network namespace {name}: {why}")]
    Namespace {
        /// Which.
        name: String,
        /// Why not.
        why: String,
    },
}

impl NetworkError {
    pub(crate) fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    pub(crate) fn namespace(name: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Namespace { name: name.to_string(), why: why.to_string() }
    }
}
