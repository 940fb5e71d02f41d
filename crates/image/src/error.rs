//! What can go wrong: the image's own fault, or the node's.

use std::io;
use std::path::{Path, PathBuf};

use crate::Digest;

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
