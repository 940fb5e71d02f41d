//! What can go wrong with a cell, in sentences.

use std::path::PathBuf;

use muster_ids::CellId;

/// Why something could not be done with a cell.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// What was asked is not allowed or makes no sense; asking again will not help.
    #[error("{0}")]
    Refused(String),
    /// There is no such cell here.
    #[error("there is no cell {0} on this node; make it first")]
    NoCell(CellId),
    /// Its first process ended, and every other with it.
    #[error("{0} is dead: its first process ended")]
    Dead(CellId),
    /// A program that cells need is not there.
    #[error("{path} is missing, and cells need it: install {package} or say in the settings where it is")]
    NoTool {
        /// Where it was looked for.
        path: PathBuf,
        /// What to install.
        package: &'static str,
    },
    /// Who waited for it waits no more. Whether it comes about is not known.
    #[error("nobody waits for it any more; ask again")]
    GivenUp,
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    System {
        /// What was tried.
        doing: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// A program that cells need ended badly.
    #[error("could not {doing}: {said}")]
    Tool {
        /// What was tried.
        doing: String,
        /// What it wrote, cut to a bound.
        said: String,
    },
}

impl CellError {
    /// Whether the cell's storage takes no writes.
    pub fn is_read_only(&self) -> bool {
        let Self::System { source, .. } = self else { return false };
        source.kind() == std::io::ErrorKind::ReadOnlyFilesystem
    }
}

/// The result of something done with a cell.
pub type CellResult<T> = Result<T, CellError>;

pub(crate) fn refused<T>(why: impl Into<String>) -> CellResult<T> {
    Err(CellError::Refused(why.into()))
}

/// Says what was tried when the operating system refuses.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> CellResult<T>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> CellResult<T> {
        self.map_err(|error| CellError::System { doing: what(), source: error.into() })
    }
}
