//! The parts of OCI manifests that carry signatures: parsed within bounds, and written.
//!
//! The registry has a complete parser of manifests; here only layers and their annotations matter, and a manifest that a
//! registry accepted is not validated again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

pub(crate) const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Maximum size of a manifest in registries.
const MOST: usize = 4 * 1024 * 1024;

/// Descriptor of a blob or manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Media type.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

/// Content to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Blob {
    pub(crate) fn new(media_type: &str, bytes: Vec<u8>) -> Self {
        let descriptor = Descriptor {
            media_type: media_type.to_owned(),
            digest: Digest::of(&bytes),
            size: bytes.len() as u64,
        };
        Self { descriptor, bytes }
    }
}

/// Content to push so that a signature is found with an artifact: first the blobs, then the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Blobs that the manifest refers to and that may be new.
    pub blobs: Vec<Blob>,
    /// The manifest.
    pub manifest: Blob,
}

/// Why a manifest cannot be searched for signatures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this manifest of signatures is invalid: {0}")]
pub struct ManifestError(pub(crate) String);

/// A layer, as read and written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ManifestLayer {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl ManifestLayer {
    pub(crate) fn digest(&self) -> Result<Digest, ManifestError> {
        self.digest.parse().map_err(|why: crate::DigestError| ManifestError(why.to_string()))
    }
}

/// A manifest, as written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest<'a> {
    pub(crate) schema_version: u8,
    pub(crate) media_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<&'a str>,
    pub(crate) config: &'a Descriptor,
    pub(crate) layers: &'a [ManifestLayer],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<&'a Descriptor>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<&'a str, &'a str>,
}

impl Manifest<'_> {
    pub(crate) fn blob(&self) -> Blob {
        Blob::new(IMAGE_MANIFEST, json(self))
    }
}

/// Returns the layers of one media type, at most as many as signatures are examined.
///
/// Further layers are ignored instead of rejecting the manifest: signers append, and an artifact signed every night must not
/// become unverifiable one day.
pub(crate) fn layers(manifest: &[u8], media_type: &str) -> Result<Vec<ManifestLayer>, ManifestError> {
    #[derive(Deserialize)]
    struct Read {
        layers: Vec<ManifestLayer>,
    }
    if manifest.len() > MOST {
        return Err(ManifestError(format!("it is longer than {MOST} bytes")));
    }
    let read: Read = serde_json::from_slice(manifest).map_err(|why| ManifestError(why.to_string()))?;
    let ours = read.layers.into_iter().filter(|layer| layer.media_type == media_type);
    Ok(ours.take(crate::MOST_SIGNATURES).collect())
}

/// Serializes our own structures, which consist of texts, numbers and lists.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("every key is a text, and nothing in it can fail to be written")
}
