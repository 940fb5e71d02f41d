//! Errors: of the image, or of the node.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::{Digest, Shortage};

/// Reason why an image is unavailable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source does not have this blob.
    #[error("{source_name} does not hold {digest}: copy the whole image there first")]
    Missing {
        /// Source that was searched.
        source_name: String,
        /// Blob that was searched for.
        digest: Digest,
    },
    /// A blob does not match its digest or its descriptor: it was damaged or replaced in transit.
    #[error("{blob} is damaged: {why}; copy it again from its source")]
    Damaged {
        /// Expected digest of the blob.
        blob: Digest,
        /// Difference.
        why: String,
    },
    /// A document of the image is invalid.
    #[error("{document} is invalid: {why}")]
    Document {
        /// Digest of the document.
        document: Digest,
        /// The fault.
        why: String,
    },
    /// A layer contains a member that cannot be unpacked safely.
    #[error("layer {layer} ({digest}), {member}: {why}")]
    Refused {
        /// Number of the layer in the manifest, from 1.
        layer: usize,
        /// Its digest.
        digest: Digest,
        /// The member, or the members around the error.
        member: String,
        /// Reason.
        why: String,
    },
    /// The operating system returned an error, which is not known to be the image's.
    #[error("{doing}: {error}")]
    Node {
        /// Attempted operation.
        doing: String,
        /// Error from the operating system.
        error: io::Error,
    },
    /// The node's file system has no space for it. Partial data was removed.
    #[error(
        "the node's disk has no space for {digest}{}: use a smaller image or another node, or free space on the disk of this one",
        short.map(|short| format!(" ({short})")).unwrap_or_default()
    )]
    NoRoom {
        /// Which image.
        digest: Digest,
        /// Short resource; unknown if the file system itself returned the error.
        short: Option<Shortage>,
    },
    /// It does not fit into the budget of its owner on this node. Partial data was removed.
    #[error(
        "{digest} does not fit into the budget for images of its project or of its tenant on this node ({short}): destroy cells with other images there, \
         use a smaller image or another node, or have the operator raise --project-images-percent"
    )]
    OverBudget {
        /// Which image.
        digest: Digest,
        /// The budget and its use.
        short: Shortage,
    },
    /// An unpacked image was modified on this node. It was set aside, and is no longer used.
    #[error(
        "{digest} was changed on this node after it was unpacked: {what}; it was quarantined, and is unpacked again on the next request"
    )]
    Changed {
        /// Which image.
        digest: Digest,
        /// Differences, with file names.
        what: String,
    },
    /// The record of an unpacked image cannot be read, so its expected content is unknown.
    #[error("{}: the record of this image is invalid ({why}); remove the image so that it is unpacked again", path.display())]
    Record {
        /// Path of the record.
        path: PathBuf,
        /// The fault.
        why: String,
    },
}

impl Error {
    /// Maps any out-of-space error to `NoRoom`.
    pub(crate) fn or_no_room(self, digest: &Digest) -> Self {
        let Self::Node { error, .. } = &self else { return self };
        let full = [Errno::NOSPC, Errno::DQUOT].map(|errno| Some(errno.raw_os_error()));
        let short = Shortage::of(error);
        if let Some(short @ Shortage::Budget { .. }) = short {
            return Self::over_budget(digest, short);
        }
        if short.is_none() && !full.contains(&error.raw_os_error()) {
            return self;
        }
        Self::NoRoom { digest: *digest, short }
    }

    pub(crate) fn over_budget(digest: &Digest, short: Shortage) -> Self {
        Self::OverBudget { digest: *digest, short }
    }

    /// Returns a mapper for `map_err` with the attempted operation.
    pub(crate) fn node(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Node { doing, error }
    }

    /// Like `node`, for an operation on a path.
    pub(crate) fn at(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::node(format!("{verb} {}", path.display()))
    }
}

/// Returns the error for refused content of an image.
pub(crate) fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
