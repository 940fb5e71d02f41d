//! Documents of an image: index, manifest and configuration, by the OCI image specification 1.1.

use serde::{Deserialize, Serialize};

use crate::{Digest, Error, Limits, Source};

/// Maximum depth of indexes before a manifest.
const NESTING: usize = 4;

/// Runtime configuration of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// `NAME=value`, in the order of the image.
    pub env: Vec<String>,
    /// Program and leading arguments.
    pub entrypoint: Vec<String>,
    /// Default arguments.
    pub cmd: Vec<String>,
    /// Working directory; empty means `/`.
    pub working_dir: String,
    /// User, as written in the image: a name or a number, perhaps with a group after a colon; empty means root.
    pub user: String,
}

/// A layer, from the manifest and the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layer {
    pub(crate) blob: Digest,
    pub(crate) size: u64,
    pub(crate) format: Format,
    pub(crate) diff_id: Digest,
}

/// Compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Tar,
    Gzip,
    Zstd,
}

/// Contents to unpack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) manifest: Digest,
    pub(crate) layers: Vec<Layer>,
    pub(crate) config: Config,
}

/// A blob, as named by a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blob {
    /// Its digest.
    pub digest: Digest,
    /// Declared size.
    pub size: u64,
}

/// Target of a document of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lead {
    /// An index, with the document for this machine.
    On(Blob),
    /// A manifest, with the parts of the image.
    To {
        /// The configuration.
        config: Blob,
        /// Layers, lowest first.
        layers: Vec<Blob>,
    },
}

/// Parses an index or a manifest, so that its parts can be fetched before unpacking. The caller has verified the digest of
/// the bytes.
pub fn lead(document: &Digest, bytes: &[u8], limits: &Limits) -> Result<Lead, Error> {
    let blob = |descriptor: &Descriptor| Blob { digest: descriptor.digest, size: descriptor.size };
    match top(document, bytes)? {
        Kind::Index(manifests) => Ok(Lead::On(blob(&choose(document, manifests)?))),
        Kind::Manifest(config, layers) => {
            few(document, &layers, limits)?;
            for layer in &layers {
                format(document, &layer.media_type)?;
            }
            Ok(Lead::To { config: blob(&config), layers: layers.iter().map(blob).collect() })
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: Digest,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// An index or a manifest. The media type is advisory; the content decides, and both at once is refused, because two readers
/// could take such a document for two different images.
#[derive(Debug, Deserialize)]
struct Top {
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

enum Kind {
    Index(Vec<Descriptor>),
    Manifest(Descriptor, Vec<Descriptor>),
}

fn top(document: &Digest, bytes: &[u8]) -> Result<Kind, Error> {
    let top: Top = parse(document, bytes)?;
    match (top.manifests, top.config, top.layers) {
        (Some(manifests), None, None) => Ok(Kind::Index(manifests)),
        (None, Some(config), Some(layers)) => Ok(Kind::Manifest(config, layers)),
        _ => {
            let why = "it is neither an index (manifests) nor a manifest (config and layers)";
            Err(wrong(document, why))
        }
    }
}

fn few(manifest: &Digest, layers: &[Descriptor], limits: &Limits) -> Result<(), Error> {
    if layers.len() > limits.layers {
        let why = format!("it has {} layers, at most {} are allowed", layers.len(), limits.layers);
        return Err(wrong(manifest, why));
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Configuration {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<Settings>,
    rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Settings {
    env: Option<Vec<String>>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<Digest>,
}

/// Resolves a digest to its layers and configuration.
pub(crate) fn plan(source: &Source, digest: &Digest, limits: &Limits) -> Result<Plan, Error> {
    let mut at = *digest;
    let mut size = None;
    for _ in 0..=NESTING {
        match top(&at, &source.document(&at, size, limits)?)? {
            Kind::Index(manifests) => {
                let chosen = choose(&at, manifests)?;
                (at, size) = (chosen.digest, Some(chosen.size));
            }
            Kind::Manifest(config, layers) => return of_manifest(source, &at, &config, &layers, limits),
        }
    }
    Err(wrong(digest, format!("it leads through more than {NESTING} indexes and to no manifest")))
}

fn of_manifest(
    source: &Source,
    manifest: &Digest,
    config: &Descriptor,
    layers: &[Descriptor],
    limits: &Limits,
) -> Result<Plan, Error> {
    few(manifest, layers, limits)?;
    let bytes = source.document(&config.digest, Some(config.size), limits)?;
    let configuration: Configuration = parse(&config.digest, &bytes)?;
    let (os, architecture) = (&configuration.os, &configuration.architecture);
    if !(os.is_empty() || os == "linux") || !(architecture.is_empty() || architecture == running()) {
        let why = format!("the image is for {os}/{architecture}, but this node is linux/{}", running());
        return Err(wrong(manifest, why));
    }
    let diff_ids = configuration.rootfs.diff_ids;
    if diff_ids.len() != layers.len() {
        let why = format!("it has {} layers, but its configuration has {}", layers.len(), diff_ids.len());
        return Err(wrong(manifest, why));
    }
    let layers = layers.iter().zip(diff_ids).map(|(layer, diff_id)| {
        let format = format(manifest, &layer.media_type)?;
        Ok(Layer { blob: layer.digest, size: layer.size, format, diff_id })
    });
    let layers = layers.collect::<Result<_, Error>>()?;
    let settings = configuration.config.unwrap_or_default();
    let config = Config {
        env: settings.env.unwrap_or_default(),
        entrypoint: settings.entrypoint.unwrap_or_default(),
        cmd: settings.cmd.unwrap_or_default(),
        working_dir: settings.working_dir.unwrap_or_default(),
        user: settings.user.unwrap_or_default(),
    };
    Ok(Plan { manifest: *manifest, layers, config })
}

/// Returns the first manifest for this architecture; one without a platform is accepted if it is the only one.
fn choose(index: &Digest, manifests: Vec<Descriptor>) -> Result<Descriptor, Error> {
    let only = manifests.len() == 1;
    let fits = |descriptor: &Descriptor| match &descriptor.platform {
        Some(platform) => platform.os == "linux" && platform.architecture == running(),
        None => only,
    };
    let offered: Vec<String> = manifests
        .iter()
        .filter_map(|descriptor| descriptor.platform.as_ref())
        .map(|platform| format!("{}/{}", platform.os, platform.architecture))
        .collect();
    manifests.into_iter().find(fits).ok_or_else(|| {
        wrong(index, format!("it offers [{}], but this node is linux/{}", offered.join(", "), running()))
    })
}

fn format(manifest: &Digest, media_type: &str) -> Result<Format, Error> {
    match media_type {
        "application/vnd.oci.image.layer.v1.tar" | "application/vnd.docker.image.rootfs.diff.tar" => {
            Ok(Format::Tar)
        }
        "application/vnd.oci.image.layer.v1.tar+gzip"
        | "application/vnd.docker.image.rootfs.diff.tar.gzip" => Ok(Format::Gzip),
        "application/vnd.oci.image.layer.v1.tar+zstd"
        | "application/vnd.docker.image.rootfs.diff.tar.zstd" => Ok(Format::Zstd),
        other => {
            let why =
                format!("a layer has the media type {other:?}; tar, tar+gzip and tar+zstd can be unpacked");
            Err(wrong(manifest, why))
        }
    }
}

/// Returns the running architecture, as named in images.
fn running() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn parse<'a, T: Deserialize<'a>>(document: &Digest, bytes: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(bytes).map_err(|error| wrong(document, format!("it cannot be read: {error}")))
}

fn wrong(document: &Digest, why: impl Into<String>) -> Error {
    Error::Document { document: *document, why: why.into() }
}
