//! Manifests: their kind, dependencies and references.
//!
//! The bytes are stored as received, because their digest identifies the manifest; this module only extracts facts from
//! them. Documents that two parsers could interpret differently are rejected, because other programs act on what is
//! validated here.

mod parse;

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::error::{Code, Refusal};

/// Maximum length of a manifest.
pub const LONGEST: usize = 4 << 20;
/// Maximum number of descriptors in one manifest.
pub const MOST_DESCRIPTORS: usize = 4096;
/// Maximum bytes of a manifest's own annotations, keys and values together. Lists of referrers repeat them.
pub const MOST_ANNOTATIONS: usize = 64 << 10;
/// Maximum size that a descriptor can declare: a PiB, far beyond every limit for blobs, and far from overflowing a sum.
pub const LARGEST: u64 = 1 << 50;

/// The annotation with the file name of an artifact's blob.
pub const TITLE: &str = "org.opencontainers.image.title";

/// The kind of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// An OCI image manifest: an image or an artifact.
    Image,
    /// An OCI image index: other manifests.
    Index,
    /// Docker's manifest, schema 2.
    DockerImage,
    /// Docker's manifest list.
    DockerList,
}

impl MediaType {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Image, Self::Index, Self::DockerImage, Self::DockerList];

    /// Returns the value used in `mediaType` and `Content-Type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "application/vnd.oci.image.manifest.v1+json",
            Self::Index => "application/vnd.oci.image.index.v1+json",
            Self::DockerImage => "application/vnd.docker.distribution.manifest.v2+json",
            Self::DockerList => "application/vnd.docker.distribution.manifest.list.v2+json",
        }
    }

    /// Reports whether it lists other manifests and not blobs.
    pub fn is_index(self) -> bool {
        matches!(self, Self::Index | Self::DockerList)
    }

    fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(text))
    }
}

/// The platform that a manifest is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The processor, in Go's terms: `amd64`, `arm64`.
    pub architecture: String,
    /// The operating system: `linux`.
    pub os: String,
    /// The processor's variant, such as `v8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// A reference to content by digest, with its properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// Its media type.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Other locations of the content.
    pub urls: Vec<String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its platform; for manifests in an index.
    pub platform: Option<Platform>,
    /// Its artifact type; for manifests in an index.
    pub artifact_type: Option<String>,
}

impl Descriptor {
    /// Returns the file name for unpacking an artifact.
    pub fn title(&self) -> Option<&str> {
        self.annotations.get(TITLE).map(String::as_str)
    }

    /// Reports whether it is a layer with restricted distribution.
    pub fn is_foreign(&self) -> bool {
        self.media_type.starts_with("application/vnd.oci.image.layer.nondistributable.")
            || self.media_type.starts_with("application/vnd.docker.image.rootfs.foreign.")
    }
}

/// A parsed manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its kind.
    pub media_type: MediaType,
    /// Its artifact type: `artifactType`, or else the configuration's media type.
    pub artifact_type: Option<String>,
    /// The manifest that it refers to.
    pub subject: Option<Descriptor>,
    /// Its configuration; absent for an index.
    pub config: Option<Descriptor>,
    /// Its blobs, in order.
    pub layers: Vec<Descriptor>,
    /// The manifests of an index, in order.
    pub children: Vec<Descriptor>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether it declares `artifactType` itself.
    pub names_its_type: bool,
}

/// The error for an invalid manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Too many bytes.
    #[error("a manifest can have {LONGEST} bytes, and this one has {0}: move content into blobs")]
    Long(usize),
    /// Schema 1, which does not identify content by its digest.
    #[error(
        "this is a manifest of schema 1, which is no longer supported: push the image again with a current tool"
    )]
    Schema1,
    /// An unknown kind.
    #[error(
        "{0:?} is not a media type of a manifest: push an OCI manifest or index, or Docker's of schema 2"
    )]
    MediaType(String),
    /// The request and the document disagree.
    #[error("the Content-Type is {said:?}, but the document's {meant:?}: send the document's own media type")]
    Contradiction {
        /// The media type of the request.
        said: String,
        /// The media type of the document.
        meant: String,
    },
    /// The document is malformed.
    #[error("the manifest is invalid: {0}")]
    Document(String),
    /// A digest with an unsupported algorithm.
    #[error("the manifest names content by {0:?}: only sha256 is supported")]
    Algorithm(String),
}

impl ManifestError {
    /// Returns the response for the client.
    pub fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(Code::ManifestInvalid, self.to_string());
        match self {
            Self::Long(_) => refusal.with_status(413),
            _ => refusal,
        }
    }
}

impl Manifest {
    /// Parses a manifest as received, with the request's `Content-Type`.
    pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self, ManifestError> {
        parse::parse(bytes, content_type)
    }

    /// Returns the blobs that the repository must have: the configuration and the layers, each once. Layers with restricted
    /// distribution that declare other locations are excluded.
    pub fn needs_blobs(&self) -> Vec<&Descriptor> {
        let elsewhere = |blob: &&Descriptor| blob.is_foreign() && !blob.urls.is_empty();
        once(self.config.iter().chain(self.layers.iter().filter(|blob| !elsewhere(blob))))
    }

    /// Returns the manifests that the repository must have, each once. The subject may be pushed later.
    pub fn needs_manifests(&self) -> Vec<&Descriptor> {
        once(self.children.iter())
    }
}

fn once<'a>(descriptors: impl Iterator<Item = &'a Descriptor>) -> Vec<&'a Descriptor> {
    let mut seen = HashSet::new();
    descriptors.filter(|descriptor| seen.insert(descriptor.digest)).collect()
}
