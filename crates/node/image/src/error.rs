//! What can go wrong: the image's own fault, or the node's.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::{Digest, Shortage};

/// Why an image is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source does not hold this blob.
    #[error("{source_name} does not hold {digest}: copy the whole image there first")]
    Missing {
        /// Where it was looked for.
        source_name: String,
        /// What was looked for.
        digest: Digest,
    },
    /// A blob is not what its digest or its descriptor says: it was damaged or exchanged on its way.
    #[error("{blob} is damaged: {why}; copy it again from where it came")]
    Damaged {
        /// The blob by the digest that it should have.
        blob: Digest,
        /// What differs.
        why: String,
    },
    /// The image's documents say something that cannot be followed.
    #[error("{document} cannot be used: {why}")]
    Document {
        /// The document by its digest.
        document: Digest,
        /// What is wrong.
        why: String,
    },
    /// A layer holds something that cannot be unpacked safely.
    #[error("layer {layer} ({digest}), {member}: {why}")]
    Refused {
        /// The layer's place in the manifest, from 1.
        layer: usize,
        /// Its digest.
        digest: Digest,
        /// The member, or between which members.
        member: String,
        /// What is wrong with it.
        why: String,
    },
    /// The node could not do it. Nothing is known to be wrong with the image.
    #[error("{doing}: {error}")]
    Node {
        /// What was tried.
        doing: String,
        /// What the system answered.
        error: io::Error,
    },
    /// The node's file system has no room for it. Whatever was written of it is removed.
    #[error(
        "the node's disk has no room for {digest}{}: use a smaller image or another node, or free space on the disk of this one",
        short.map(|short| format!(" ({short})")).unwrap_or_default()
    )]
    NoRoom {
        /// Which image.
        digest: Digest,
        /// Which resource is short; not known where the file system itself refused.
        short: Option<Shortage>,
    },
    /// An unpacked image was changed on this node. It was set aside, and nobody is given it any more.
    #[error(
        "{digest} was changed on this node after it was unpacked: {what}; it was set aside, and is unpacked anew when it is asked for again"
    )]
    Changed {
        /// Which image.
        digest: Digest,
        /// What differs, with the names of the files.
        what: String,
    },
    /// The record of an unpacked image cannot be read, so nobody can say what it should be.
    #[error("{}: the record of this image cannot be read ({why}); remove the image and let it be unpacked again", path.display())]
    Record {
        /// Where the record lies.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// Names a lack of room as what it is, whoever noticed it.
    pub(crate) fn or_no_room(self, digest: &Digest) -> Self {
        let Self::Node { error, .. } = &self else { return self };
        let full = [Errno::NOSPC, Errno::DQUOT].map(|errno| Some(errno.raw_os_error()));
        let short = Shortage::of(error);
        if short.is_none() && !full.contains(&error.raw_os_error()) {
            return self;
        }
        Self::NoRoom { digest: *digest, short }
    }

    /// For `map_err`: what the node was asked to do when it failed.
    pub(crate) fn node(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Node { doing, error }
    }

    /// The same, for an operation on a path.
    pub(crate) fn at(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::node(format!("{verb} {}", path.display()))
    }
}

/// Something in an image that will not be followed.
pub(crate) fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
