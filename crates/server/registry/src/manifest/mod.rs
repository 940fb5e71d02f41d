//! What a manifest says: its kind, what it needs, and what it refers to.
//!
//! The bytes are kept as they came, since their digest is the manifest's name; what is read here are facts about them.
//! Whatever two readers could understand differently is refused, because somebody else follows what we have checked.

mod parse;

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::Digest;
use crate::error::{Code, Refusal};

/// The longest manifest.
pub const LONGEST: usize = 4 << 20;
/// The most descriptors of one manifest.
pub const MOST_DESCRIPTORS: usize = 4096;
/// The most bytes of a manifest's own annotations, keys and values together. Lists of referrers repeat them.
pub const MOST_ANNOTATIONS: usize = 64 << 10;
/// The largest size that a descriptor may claim: a PiB, far beyond every limit for blobs, and far from overflowing a sum.
pub const LARGEST: u64 = 1 << 50;

/// The annotation that names the file which a blob of an artifact is.
pub const TITLE: &str = "org.opencontainers.image.title";

/// Which kind of manifest.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Image, Self::Index, Self::DockerImage, Self::DockerList];

    /// As it is written in `mediaType` and `Content-Type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "application/vnd.oci.image.manifest.v1+json",
            Self::Index => "application/vnd.oci.image.index.v1+json",
            Self::DockerImage => "application/vnd.docker.distribution.manifest.v2+json",
            Self::DockerList => "application/vnd.docker.distribution.manifest.list.v2+json",
        }
    }

    /// Whether it lists other manifests rather than blobs.
    pub fn is_index(self) -> bool {
        matches!(self, Self::Index | Self::DockerList)
    }

    fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(text))
    }
}

/// For what kind of machine a manifest is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The processor, in Go's words: `amd64`, `arm64`.
    pub architecture: String,
    /// The operating system: `linux`.
    pub os: String,
    /// The processor's variant, such as `v8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Content, by its digest, and what is said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// What kind of content.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Where else it can be had.
    pub urls: Vec<String>,
    /// What is said about it.
    pub annotations: BTreeMap<String, String>,
    /// For what kind of machine; of manifests in an index.
    pub platform: Option<Platform>,
    /// What kind of artifact; of manifests in an index.
    pub artifact_type: Option<String>,
}

impl Descriptor {
    /// The file that it is, for whoever unpacks an artifact.
    pub fn title(&self) -> Option<&str> {
        self.annotations.get(TITLE).map(String::as_str)
    }

    /// Whether it is a layer that its maker does not allow others to pass on.
    pub fn is_foreign(&self) -> bool {
        self.media_type.starts_with("application/vnd.oci.image.layer.nondistributable.")
            || self.media_type.starts_with("application/vnd.docker.image.rootfs.foreign.")
    }
}

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its kind.
    pub media_type: MediaType,
    /// What kind of artifact: `artifactType`, or else the configuration's media type.
    pub artifact_type: Option<String>,
    /// What it is about: the manifest that it refers to.
    pub subject: Option<Descriptor>,
    /// Its configuration; none of an index.
    pub config: Option<Descriptor>,
    /// Its blobs, in their order.
    pub layers: Vec<Descriptor>,
    /// The manifests of an index, in their order.
    pub children: Vec<Descriptor>,
    /// What is said about it.
    pub annotations: BTreeMap<String, String>,
    /// Whether it names its `artifactType` itself.
    pub names_its_type: bool,
}

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Too many bytes.
    #[error("a manifest may have {LONGEST} bytes, and this one has {0}: put what it holds into blobs")]
    Long(usize),
    /// The first schema, which names content by something else than its digest.
    #[error(
        "this is a manifest of schema 1, which is no longer supported: push the image again with a current tool"
    )]
    Schema1,
    /// None of the kinds that are known.
    #[error("{0:?} is no media type of a manifest: push an OCI manifest or index, or Docker's of schema 2")]
    MediaType(String),
    /// The request and the document disagree.
    #[error("the Content-Type says {said:?} and the document {meant:?}: send the document's own media type")]
    Contradiction {
        /// What the request says.
        said: String,
        /// What the document says.
        meant: String,
    },
    /// The document cannot be followed.
    #[error("the manifest cannot be used: {0}")]
    Document(String),
    /// A digest of an algorithm that the registry does not keep.
    #[error("the manifest names content by {0:?}: only sha256 is supported")]
    Algorithm(String),
}

impl ManifestError {
    /// How a client is told.
    pub fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(Code::ManifestInvalid, self.to_string());
        match self {
            Self::Long(_) => refusal.with_status(413),
            _ => refusal,
        }
    }
}

impl Manifest {
    /// Reads a manifest as it was sent, with the request's `Content-Type`.
    pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Self, ManifestError> {
        parse::parse(bytes, content_type)
    }

    /// The blobs that the repository must have: the configuration and the layers, each once. Layers that may not be passed on
    /// and say where else they can be had are left out.
    pub fn needs_blobs(&self) -> Vec<&Descriptor> {
        let elsewhere = |blob: &&Descriptor| blob.is_foreign() && !blob.urls.is_empty();
        once(self.config.iter().chain(self.layers.iter().filter(|blob| !elsewhere(blob))))
    }

    /// The manifests that the repository must have, each once. What it refers to as its subject may come later.
    pub fn needs_manifests(&self) -> Vec<&Descriptor> {
        once(self.children.iter())
    }
}

fn once<'a>(descriptors: impl Iterator<Item = &'a Descriptor>) -> Vec<&'a Descriptor> {
    let mut seen = HashSet::new();
    descriptors.filter(|descriptor| seen.insert(descriptor.digest)).collect()
}
