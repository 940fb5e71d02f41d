//! Why something about a disk was not done.

use std::io;
use std::path::Path;

use super::{DiskId, DiskState};

/// Why something about a disk was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such disk.
    #[error("there is no disk {0} on this node")]
    Absent(DiskId),
    /// It has another size than the one asked for.
    #[error("disk {id} has {has_mb} MiB and not {asked_mb}: grow or shrink it")]
    Size {
        /// The disk.
        id: DiskId,
        /// Its size.
        has_mb: u64,
        /// What was asked for.
        asked_mb: u64,
    },
    /// What is asked for does not fit to what has become of it.
    #[error("disk {id} is {state}: {what}")]
    State {
        /// The disk.
        id: DiskId,
        /// What has become of it.
        state: DiskState,
        /// What cannot be done, and what can.
        what: &'static str,
    },
    /// Somebody uses it.
    #[error("disk {id} is still in use by {}; end these first", list(users))]
    Busy {
        /// The disk.
        id: DiskId,
        /// Who, as far as the kernel shows it.
        users: Vec<String>,
    },
    /// It is in use, and this node can grow it only while it is not.
    #[error(
        "disk {id} cannot grow while it is in use by {}, because the agent lacks the capability CAP_SYS_RESOURCE: \
         end these, or give it the capability",
        list(users)
    )]
    GrowInUse {
        /// The disk.
        id: DiskId,
        /// Who uses it, as far as the kernel shows it.
        users: Vec<String>,
    },
    /// The wipe left something.
    #[error("disk {id} is not clean after its wipe: {}", list(residue))]
    Residue {
        /// The disk.
        id: DiskId,
        /// What was found.
        residue: Vec<String>,
    },
    /// Disks cannot lie in this folder.
    #[error(
        "{folder} lies on {kind}, which keeps old copies of what is overwritten: put disks on ext4 or xfs"
    )]
    Folder {
        /// The folder.
        folder: String,
        /// Its file system.
        kind: &'static str,
    },
    /// The node's file system has no room for it.
    #[error(
        "the node's disk has no room for disk {id} with {mb} MiB: remove files from it, or have the node offer less (--reserve-disk-mb)"
    )]
    NoSpace {
        /// The disk.
        id: DiskId,
        /// The size that was asked for.
        mb: u64,
    },
    /// A program failed.
    #[error("{program} failed ({status}): {said}")]
    Program {
        /// With its arguments.
        program: String,
        /// How it ended.
        status: String,
        /// What it said, cut where it was long.
        said: String,
    },
    /// The node could not do it.
    #[error("{doing}: {error}")]
    Node {
        /// What was tried.
        doing: String,
        /// What the system answered.
        error: io::Error,
    },
}

impl Error {
    /// For `map_err`: what was tried with which path.
    pub(super) fn at(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let doing = format!("{verb} {}", path.display());
        move |error| Self::Node { doing, error }
    }
}

fn list(sentences: &[String]) -> String {
    if sentences.is_empty() {
        "somebody whom the kernel does not show".to_owned()
    } else {
        sentences.join("; ")
    }
}
