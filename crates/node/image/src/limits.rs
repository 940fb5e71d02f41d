//! Limits of one image on a node.

use serde::{Deserialize, Serialize};

/// Disk space and inodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Bytes.
    pub bytes: u64,
    /// Files and directories.
    pub files: u64,
}

/// Limits of one image on a node. Larger images are refused, whatever their signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all layers together, uncompressed.
    pub bytes: u64,
    /// Members of all layers together.
    pub entries: u64,
    /// Maximum depth of directories.
    pub depth: usize,
    /// Layers.
    pub layers: usize,
    /// Bytes of one document: a manifest, an index or a configuration.
    pub document_bytes: u64,
    /// Reserve of the node's file system that stays free, whatever an image contains.
    pub free: Footprint,
}

impl Default for Limits {
    /// Enough for twice the largest GPU images in use (about 25 GiB and half a million files).
    fn default() -> Self {
        Self {
            bytes: 64 << 30,
            entries: 1_000_000,
            depth: 128,
            layers: 256, // overlay-based builders stop at 127
            document_bytes: 4 << 20,
            free: Footprint { bytes: 256 << 20, files: 16 << 10 },
        }
    }
}
