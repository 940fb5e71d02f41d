//! Routes: the path after `/v2/`, by the grammar of the OCI distribution specification.
//!
//! Repository names contain slashes, so a path is parsed from its right end, which determines the route; the rest is the
//! name. Parsing from the left was rejected: `a/blobs/uploads` is a legal name.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::Digest;
use crate::error::{Code, Refusal};

/// Maximum length of a repository name.
pub const LONGEST_NAME: usize = 255;
/// Maximum length of a tag.
pub const LONGEST_TAG: usize = 128;

/// A repository name: parts of lower-case letters and digits with `.`, `_`, `__` or hyphens between them, separated by
/// slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(String);

/// A reference to a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// By tag, which can move to another manifest.
    Tag(Tag),
    /// By digest.
    Digest(Digest),
}

/// The route of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The API version probe.
    Base,
    /// The list of repositories.
    Catalog,
    /// A repository's tags.
    Tags {
        /// The repository.
        name: Name,
    },
    /// A manifest.
    Manifest {
        /// The repository.
        name: Name,
        /// The manifest.
        reference: Reference,
    },
    /// A blob.
    Blob {
        /// The repository.
        name: Name,
        /// The blob.
        digest: Digest,
    },
    /// A new upload.
    UploadStart {
        /// The repository.
        name: Name,
    },
    /// A started upload.
    Upload {
        /// The repository.
        name: Name,
        /// The upload.
        id: Uuid,
    },
    /// The manifests that refer to one.
    Referrers {
        /// The repository.
        name: Name,
        /// The manifest they refer to.
        digest: Digest,
    },
}

/// An invalid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such route in the protocol.
    #[error(
        "the registry has no such path: after /v2/ come a repository's name and tags/list, manifests/…, blobs/… or referrers/…"
    )]
    Path,
    /// Not a repository name.
    #[error(
        "invalid repository name {0:?}: use lower-case letters and digits, with . _ - between them and / between parts, at most 255 characters"
    )]
    Name(String),
    /// Not a tag.
    #[error(
        "invalid tag {0:?}: use letters, digits, . _ - and begin with a letter, a digit or _, at most 128 characters"
    )]
    Tag(String),
    /// Not a digest.
    #[error("invalid digest {0:?}: expected sha256: and 64 lower-case hexadecimal digits")]
    Digest(String),
    /// A digest with an unsupported algorithm.
    #[error("digests by {0:?} are not supported: use sha256")]
    Algorithm(String),
    /// Not an upload id.
    #[error("there is no upload {0:?}: start a new one")]
    Upload(String),
}

impl Error {
    /// Returns the response for the client.
    pub fn refusal(&self) -> Refusal {
        let refusal = |code| Refusal::new(code, self.to_string());
        match self {
            Self::Path => refusal(Code::Unsupported).with_status(404),
            Self::Name(_) => refusal(Code::NameInvalid),
            Self::Tag(_) => refusal(Code::ManifestInvalid),
            Self::Digest(_) => refusal(Code::DigestInvalid),
            // With the code, a client learns that another digest would work; 405 would mean that the method is wrong.
            Self::Algorithm(_) => refusal(Code::Unsupported).with_status(400),
            Self::Upload(_) => refusal(Code::BlobUploadUnknown),
        }
    }
}

/// Parses the part of a request's path after `/v2/`.
pub fn parse(rest: &str) -> Result<Route, Error> {
    match rest {
        "" => return Ok(Route::Base),
        "_catalog" => return Ok(Route::Catalog),
        _ => {}
    }
    let (before, last) = rest.rsplit_once('/').ok_or(Error::Path)?;
    let (name, word) = before.rsplit_once('/').ok_or(Error::Path)?;
    match (word, last) {
        ("tags", "list") => Ok(Route::Tags { name: name.parse()? }),
        ("manifests", _) => Ok(Route::Manifest { name: name.parse()?, reference: last.parse()? }),
        ("referrers", _) => Ok(Route::Referrers { name: name.parse()?, digest: digest(last)? }),
        ("blobs", "uploads") => Ok(Route::UploadStart { name: name.parse()? }),
        ("blobs", _) => Ok(Route::Blob { name: name.parse()?, digest: digest(last)? }),
        ("uploads", _) => {
            let name: Name = name.strip_suffix("/blobs").ok_or(Error::Path)?.parse()?;
            if last.is_empty() {
                return Ok(Route::UploadStart { name });
            }
            let id = Uuid::try_parse(last).map_err(|_| Error::Upload(shown(last)))?;
            Ok(Route::Upload { name, id })
        }
        _ => Err(Error::Path),
    }
}

/// Parses a digest from a path or from `?digest=`.
pub fn digest(text: &str) -> Result<Digest, Error> {
    text.parse().map_err(|_| {
        let other = |algorithm: &str| {
            let letters =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+._-".contains(&byte);
            !algorithm.is_empty() && algorithm != "sha256" && algorithm.bytes().all(letters)
        };
        match text.split_once(':') {
            Some((algorithm, encoded)) if other(algorithm) && !encoded.is_empty() => {
                Error::Algorithm(shown(algorithm))
            }
            _ => Error::Digest(shown(text)),
        }
    })
}

fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() <= LONGEST_NAME && text.split('/').all(is_part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::Name(shown(text)))
        }
    }
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_part(part: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let between = |run: &[u8]| match run {
        [] | b"." | b"_" | b"__" => true,
        hyphens => hyphens.iter().all(|byte| *byte == b'-'),
    };
    plain(first) && plain(last) && bytes.split(plain).all(between)
}

impl FromStr for Tag {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let good = text.len() <= LONGEST_TAG
            && text.as_bytes().first().is_some_and(word)
            && text.as_bytes().iter().all(|byte| word(byte) || b".-".contains(byte));
        if good { Ok(Self(text.to_owned())) } else { Err(Error::Tag(shown(text))) }
    }
}

impl FromStr for Reference {
    type Err = Error;

    /// Tags contain no colon; digests always do.
    fn from_str(text: &str) -> Result<Self, Error> {
        if text.contains(':') { digest(text).map(Self::Digest) } else { text.parse().map(Self::Tag) }
    }
}

impl Name {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Tag {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => tag.fmt(f),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
