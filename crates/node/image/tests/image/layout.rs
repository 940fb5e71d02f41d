//! Builds image layouts for tests: valid ones, and ones that no builder would write.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use muster_image::{Digest, Source};
use serde_json::{Value, json};

/// A tar archive, member by member, without any validation.
#[derive(Clone, Default)]
pub(crate) struct Tar(Vec<u8>);

/// Header of a member.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: u64,
    pub(crate) link: Vec<u8>,
    /// Declared instead of the true size.
    pub(crate) size: Option<u64>,
}

impl Default for Header {
    fn default() -> Self {
        Self { kind: b'0', mode: 0o644, uid: 0, gid: 0, mtime: 1_700_000_000, link: Vec::new(), size: None }
    }
}

impl Tar {
    pub(crate) fn file(self, name: &str, content: &[u8]) -> Self {
        self.member(name.as_bytes(), &Header::default(), content)
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.member(name.as_bytes(), &Header { kind: b'5', mode: 0o755, ..Header::default() }, b"")
    }

    pub(crate) fn symlink(self, name: &str, to: &str) -> Self {
        let header = Header { kind: b'2', mode: 0o777, link: to.into(), ..Header::default() };
        self.member(name.as_bytes(), &header, b"")
    }

    pub(crate) fn hard_link(self, name: &str, to: &str) -> Self {
        let header = Header { kind: b'1', link: to.into(), ..Header::default() };
        self.member(name.as_bytes(), &header, b"")
    }

    /// Adds a member with this header. Names that do not fit go into an extended header.
    pub(crate) fn member(mut self, name: &[u8], header: &Header, content: &[u8]) -> Self {
        if name.len() > 100 || header.link.len() > 100 {
            let records = [(&b"path"[..], name), (&b"linkpath"[..], &header.link[..])];
            self = self.extended(&records);
        }
        self.raw(&name[..name.len().min(100)], header, content)
    }

    /// Adds an extended header for the next member.
    pub(crate) fn extended(self, records: &[(&[u8], &[u8])]) -> Self {
        let mut bytes = Vec::new();
        for (key, value) in records.iter().filter(|(_, value)| !value.is_empty()) {
            let rest = key.len() + value.len() + 3;
            let mut length = rest;
            while length != rest + length.to_string().len() {
                length = rest + length.to_string().len();
            }
            bytes.extend_from_slice(format!("{length} ").as_bytes());
            bytes.extend_from_slice(key);
            bytes.push(b'=');
            bytes.extend_from_slice(value);
            bytes.push(b'\n');
        }
        self.raw(b"extended", &Header { kind: b'x', ..Header::default() }, &bytes)
    }

    fn raw(mut self, name: &[u8], header: &Header, content: &[u8]) -> Self {
        let mut block = [0_u8; 512];
        block[..name.len()].copy_from_slice(name);
        block[100..108].copy_from_slice(format!("{:07o}\0", header.mode).as_bytes());
        block[108..116].copy_from_slice(format!("{:07o}\0", header.uid).as_bytes());
        block[116..124].copy_from_slice(format!("{:07o}\0", header.gid).as_bytes());
        match header.size {
            Some(size) if size >= 1 << 33 => {
                block[124] = 0x80;
                block[128..136].copy_from_slice(&size.to_be_bytes());
            }
            size => {
                let size = size.unwrap_or(content.len() as u64);
                block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
            }
        }
        block[136..148].copy_from_slice(format!("{:011o}\0", header.mtime).as_bytes());
        block[156] = header.kind;
        let link = &header.link[..header.link.len().min(100)];
        block[157..157 + link.len()].copy_from_slice(link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.resize(bytes.len() + 1024, 0);
        bytes
    }
}

/// Compression of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// A layer for a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) descriptor: Value,
    pub(crate) diff_id: String,
}

/// A layout folder.
pub(crate) struct Layout(PathBuf);

impl Layout {
    pub(crate) fn new(folder: &Path) -> Self {
        fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        fs::write(folder.join("index.json"), r#"{"schemaVersion":2,"manifests":[]}"#).unwrap();
        Self(folder.to_owned())
    }

    pub(crate) fn source(&self) -> Source {
        Source::Layout(self.0.clone())
    }

    pub(crate) fn path_of(&self, digest: &Digest) -> PathBuf {
        self.0.join("blobs/sha256").join(digest.hex())
    }

    pub(crate) fn blob(&self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        fs::write(self.path_of(&digest), bytes).unwrap();
        digest
    }

    pub(crate) fn descriptor(&self, media_type: &str, bytes: &[u8]) -> Value {
        json!({"mediaType": media_type, "digest": self.blob(bytes), "size": bytes.len()})
    }

    pub(crate) fn layer(&self, plain: &[u8], packing: Packing) -> Layer {
        let (suffix, packed) = match packing {
            Packing::Plain => ("", plain.to_vec()),
            Packing::Gzip => ("+gzip", gzip(plain)),
            Packing::Zstd => ("+zstd", zstd(plain)),
        };
        self.packed_layer(&packed, suffix, &Digest::of(plain))
    }

    pub(crate) fn packed_layer(&self, packed: &[u8], suffix: &str, diff_id: &Digest) -> Layer {
        let media_type = format!("application/vnd.oci.image.layer.v1.tar{suffix}");
        Layer { descriptor: self.descriptor(&media_type, packed), diff_id: diff_id.to_string() }
    }

    /// Adds a manifest of these layers, with this configuration.
    pub(crate) fn manifest(&self, layers: &[Layer], config: &Value) -> Digest {
        let diff_ids: Vec<&String> = layers.iter().map(|layer| &layer.diff_id).collect();
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let configuration = json!({
            "architecture": architecture, "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config =
            self.descriptor("application/vnd.oci.image.config.v1+json", configuration.to_string().as_bytes());
        let layers: Vec<&Value> = layers.iter().map(|layer| &layer.descriptor).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers,
        });
        self.blob(manifest.to_string().as_bytes())
    }

    pub(crate) fn image(&self, layers: &[Tar]) -> Digest {
        let layers: Vec<Layer> =
            layers.iter().map(|layer| self.layer(&layer.bytes(), Packing::Plain)).collect();
        self.manifest(&layers, &json!({}))
    }
}

pub(crate) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(plain: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest)
}
