//! Errors of disks.

use std::io;
use std::path::Path;

use super::{DiskId, DiskState};

/// Reason why an operation on a disk failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such disk.
    #[error("there is no disk {0} on this node")]
    Absent(DiskId),
    /// The size differs from the requested one.
    #[error("disk {id} has {has_mb} MiB, not {asked_mb}: grow or shrink it")]
    Size {
        /// The disk.
        id: DiskId,
        /// Its size.
        has_mb: u64,
        /// Requested size.
        asked_mb: u64,
    },
    /// The request does not fit the state of the disk.
    #[error("disk {id} is {state}: {what}")]
    State {
        /// The disk.
        id: DiskId,
        /// State of the disk.
        state: DiskState,
        /// The refused operation and the remedy.
        what: &'static str,
    },
    /// The disk is in use.
    #[error("disk {id} is still in use by {}; end these first", list(users))]
    Busy {
        /// The disk.
        id: DiskId,
        /// Users, as far as the kernel reports them.
        users: Vec<String>,
    },
    /// The disk is in use, and this node can grow it only while it is not.
    #[error(
        "disk {id} cannot grow while it is in use by {}, because the agent lacks the capability CAP_SYS_RESOURCE: \
         end these, or give it the capability",
        list(users)
    )]
    GrowInUse {
        /// The disk.
        id: DiskId,
        /// Users of the disk, as far as the kernel reports them.
        users: Vec<String>,
    },
    /// The wipe left residue.
    #[error("disk {id} is not clean after its wipe: {}", list(residue))]
    Residue {
        /// The disk.
        id: DiskId,
        /// Residue that was found.
        residue: Vec<String>,
    },
    /// Disks cannot be in this folder.
    #[error("{folder} is on {kind}, which keeps old copies of overwritten data: put disks on ext4 or xfs")]
    Folder {
        /// The folder.
        folder: String,
        /// Its file system.
        kind: &'static str,
    },
    /// The node's file system has no space for it.
    #[error(
        "the node's disk has no space for disk {id} with {mb} MiB: remove files from it, or let the node offer less (--reserve-disk-mb)"
    )]
    NoSpace {
        /// The disk.
        id: DiskId,
        /// Requested size.
        mb: u64,
    },
    /// A program failed.
    #[error(transparent)]
    Program(#[from] muster_exec::Failed),
    /// The operating system returned an error.
    #[error("{doing}: {error}")]
    Node {
        /// Attempted operation.
        doing: String,
        /// Error from the operating system.
        error: io::Error,
    },
}

impl Error {
    /// Returns a mapper for `map_err` with the attempted operation and its path.
    pub(super) fn at(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let doing = format!("{verb} {}", path.display());
        move |error| Self::Node { doing, error }
    }
}

fn list(sentences: &[String]) -> String {
    if sentences.is_empty() {
        "a process that the kernel does not show".to_owned()
    } else {
        sentences.join("; ")
    }
}
