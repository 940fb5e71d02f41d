//! Errors of cells.

use std::path::PathBuf;

use muster_ids::CellId;

/// Reason why an operation on a cell failed.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// The request is invalid or not allowed; a retry will not help.
    #[error("{0}")]
    Refused(String),
    /// There is no such cell on this node.
    #[error("there is no cell {0} on this node; create it first")]
    NoCell(CellId),
    /// Its first process ended, and all others with it.
    #[error("{0} is dead: its first process ended")]
    Dead(CellId),
    /// A required program is missing.
    #[error("{path} is missing, and cells need it: install {package} or set its path in the settings")]
    NoTool {
        /// Path that was searched.
        path: PathBuf,
        /// Package to install.
        package: &'static str,
    },
    /// The caller stopped waiting. The result is unknown.
    #[error("the request was abandoned; repeat it")]
    GivenUp,
    /// The operating system returned an error.
    #[error("could not {doing}: {source}")]
    System {
        /// Failed action.
        doing: String,
        /// Error from the kernel.
        source: std::io::Error,
    },
    /// A required program failed.
    #[error("could not {doing}: {said}")]
    Tool {
        /// Failed action.
        doing: String,
        /// Its output, truncated.
        said: String,
    },
}

impl CellError {
    /// Reports whether the cell's storage is read-only.
    pub fn is_read_only(&self) -> bool {
        let Self::System { source, .. } = self else { return false };
        source.kind() == std::io::ErrorKind::ReadOnlyFilesystem
    }
}

/// Result of an operation on a cell.
pub type CellResult<T> = Result<T, CellError>;

pub(crate) fn refused<T>(why: impl Into<String>) -> CellResult<T> {
    Err(CellError::Refused(why.into()))
}

/// Adds the attempted operation to an operating system error.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> CellResult<T>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> CellResult<T> {
        self.map_err(|error| CellError::System { doing: what(), source: error.into() })
    }
}
