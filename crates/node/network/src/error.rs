//! What goes wrong with a network, each as a sentence that says what to do.

use std::path::{Path, PathBuf};

/// Why a network is not as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// What was asked for cannot be; nothing was changed.
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
    /// A program of the system failed. What it did before it failed may be there; asking again finishes it.
    #[error("`{program}` failed: {said}")]
    Program {
        /// Which, with its arguments.
        program: String,
        /// What it said, or how it ended.
        said: String,
    },
    /// A namespace could not be entered, made or removed.
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
