//! The input of the rules.

use serde::Deserialize;

use crate::manifest::Manifest;

/// The media types of image configurations; a manifest with another one is an artifact, which is never run.
const IMAGE_CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

pub(super) struct Facts<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) kind: Kind,
}

/// The kind of a manifest.
pub(super) enum Kind {
    /// Something to run, with its configuration or the error of reading it.
    Image(Result<Box<Configuration>, String>),
    /// Files.
    Artifact,
    /// Other manifests.
    Index,
}

#[derive(Deserialize)]
pub(super) struct Configuration {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
    pub(super) created: Option<String>,
    #[serde(default)]
    pub(super) config: Option<Settings>,
    #[serde(default)]
    pub(super) rootfs: Option<RootFs>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Settings {
    pub(super) env: Option<Vec<String>>,
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) cmd: Option<Vec<String>>,
    pub(super) user: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct RootFs {
    #[serde(default)]
    pub(super) diff_ids: Vec<String>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(manifest: &'a Manifest, config: Option<&[u8]>) -> Self {
        // Decided by the configuration alone: an image that declares itself an artifact would still be run.
        let is_image = |media_type: &str| IMAGE_CONFIGS.contains(&media_type);
        let kind = match &manifest.config {
            None => Kind::Index,
            Some(described) if is_image(&described.media_type) => Kind::Image(read(config)),
            Some(_) => Kind::Artifact,
        };
        Self { manifest, kind }
    }

    /// Returns the configuration of an image, if readable.
    pub(super) fn configuration(&self) -> Option<&Configuration> {
        match &self.kind {
            Kind::Image(Ok(configuration)) => Some(configuration),
            _ => None,
        }
    }

    pub(super) fn is_image(&self) -> bool {
        matches!(self.kind, Kind::Image(_))
    }

    pub(super) fn is_artifact(&self) -> bool {
        matches!(self.kind, Kind::Artifact)
    }

    pub(super) fn is_index(&self) -> bool {
        matches!(self.kind, Kind::Index)
    }
}

fn read(config: Option<&[u8]>) -> Result<Box<Configuration>, String> {
    let bytes = config.ok_or("it is missing")?;
    serde_json::from_slice(bytes).map(Box::new).map_err(|error| error.to_string())
}

/// Shortens untrusted text for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}
