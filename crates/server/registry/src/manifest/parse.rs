//! Parsing of manifests.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::{
    Descriptor, LARGEST, LONGEST, MOST_ANNOTATIONS, MOST_DESCRIPTORS, Manifest, ManifestError, MediaType,
    Platform,
};
use crate::Digest;
use crate::{path, strict};

/// The keys that determine the meaning of a document.
const KEYS: [&str; 8] =
    ["schemaVersion", "mediaType", "artifactType", "config", "layers", "manifests", "subject", "annotations"];

/// Maximum length of a media type, by RFC 6838 for each of its two parts.
const LONGEST_TYPE: usize = 255;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: Option<u64>,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<Written>,
    layers: Option<Vec<Written>>,
    manifests: Option<Vec<Written>>,
    subject: Option<Written>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    media_type: String,
    digest: String,
    size: u64,
    urls: Option<Vec<String>>,
    annotations: Option<BTreeMap<String, String>>,
    platform: Option<Platform>,
    artifact_type: Option<String>,
}

pub(super) fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Manifest, ManifestError> {
    if bytes.len() > LONGEST {
        return Err(ManifestError::Long(bytes.len()));
    }
    let said = content_type.map(bare).filter(|said| !said.is_empty());
    if said.as_deref().is_some_and(is_schema_1) {
        return Err(ManifestError::Schema1);
    }
    strict::check(bytes, &KEYS).map_err(unreadable)?;
    let document: Document = serde_json::from_slice(bytes).map_err(unreadable)?;
    if document.schema_version == Some(1) || document.media_type.as_deref().is_some_and(is_schema_1) {
        return Err(ManifestError::Schema1);
    }
    if document.schema_version != Some(2) {
        return Err(wrong("schemaVersion must be 2"));
    }
    let media_type = kind(&document, said)?;
    match (media_type.is_index(), &document.manifests, &document.config, &document.layers) {
        (true, Some(_), None, None) | (false, None, Some(_), Some(_)) => build(media_type, document),
        (true, ..) => Err(wrong("an index must have manifests, and neither config nor layers")),
        (false, ..) => Err(wrong("an image manifest must have config and layers, and no manifests")),
    }
}

/// Determines the kind: from the document, else from the request, else from the contents. They must not contradict each
/// other.
fn kind(document: &Document, said: Option<String>) -> Result<MediaType, ManifestError> {
    let known = |text: &str| MediaType::of(text).ok_or_else(|| ManifestError::MediaType(shown(text)));
    match (&document.media_type, said) {
        (Some(meant), said) => {
            let kind = known(meant)?;
            match said {
                Some(said) if MediaType::of(&said) != Some(kind) => {
                    Err(ManifestError::Contradiction { said: shown(&said), meant: shown(meant) })
                }
                _ => Ok(kind),
            }
        }
        (None, Some(said)) => known(&said),
        (None, None) if document.manifests.is_some() => Ok(MediaType::Index),
        (None, None) => Ok(MediaType::Image),
    }
}

fn build(media_type: MediaType, document: Document) -> Result<Manifest, ManifestError> {
    let Document { artifact_type, config, layers, manifests, subject, annotations, .. } = document;
    let (layers, manifests) = (layers.unwrap_or_default(), manifests.unwrap_or_default());
    if layers.len() + manifests.len() > MOST_DESCRIPTORS {
        return Err(wrong(format!("it has more than {MOST_DESCRIPTORS} descriptors")));
    }
    let all = |written: Vec<Written>| written.into_iter().map(descriptor).collect::<Result<Vec<_>, _>>();
    let config = config.map(descriptor).transpose()?;
    let subject = subject.map(descriptor).transpose()?;
    let (layers, children) = (all(layers)?, all(manifests)?);
    one_size_each(config.iter().chain(&layers).chain(&children))?;
    let named = artifact_type.filter(|named| !named.is_empty());
    if let Some(named) = &named {
        media_type_of(named)?;
    }
    let annotations = annotations.unwrap_or_default();
    let length: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if length > MOST_ANNOTATIONS {
        let why = format!(
            "its annotations have {length} bytes, at most {MOST_ANNOTATIONS} are allowed: put long texts into a layer"
        );
        return Err(wrong(why));
    }
    let names_its_type = named.is_some();
    let artifact_type = named.or_else(|| config.as_ref().map(|config| config.media_type.clone()));
    Ok(Manifest { media_type, artifact_type, subject, config, layers, children, annotations, names_its_type })
}

fn descriptor(written: Written) -> Result<Descriptor, ManifestError> {
    let Written { media_type, digest, size, urls, annotations, platform, artifact_type } = written;
    media_type_of(&media_type)?;
    let digest: Digest = path::digest(&digest).map_err(|error| match error {
        path::Error::Algorithm(algorithm) => ManifestError::Algorithm(algorithm),
        error => wrong(error.to_string()),
    })?;
    if size > LARGEST {
        return Err(wrong(format!("{digest} has {size} bytes, at most {LARGEST} are allowed")));
    }
    let (urls, annotations) = (urls.unwrap_or_default(), annotations.unwrap_or_default());
    Ok(Descriptor { media_type, digest, size, urls, annotations, platform, artifact_type })
}

fn media_type_of(text: &str) -> Result<(), ManifestError> {
    let good = text.len() <= LONGEST_TYPE
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && text.split_once('/').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
    if good { Ok(()) } else { Err(wrong(format!("{:?} is not a media type", shown(text)))) }
}

/// Rejects two descriptors with the same digest and different sizes, one of which must be wrong.
fn one_size_each<'a>(descriptors: impl Iterator<Item = &'a Descriptor>) -> Result<(), ManifestError> {
    let mut sizes = HashMap::new();
    for descriptor in descriptors {
        if *sizes.entry(descriptor.digest).or_insert(descriptor.size) != descriptor.size {
            return Err(wrong(format!("it gives {} two different sizes", descriptor.digest)));
        }
    }
    Ok(())
}

/// Strips the parameters from a media type.
fn bare(text: &str) -> String {
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_schema_1(media_type: &str) -> bool {
    media_type.starts_with("application/vnd.docker.distribution.manifest.v1+")
}

fn unreadable(error: serde_json::Error) -> ManifestError {
    wrong(error.to_string())
}

fn wrong(why: impl Into<String>) -> ManifestError {
    ManifestError::Document(why.into())
}

fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}
