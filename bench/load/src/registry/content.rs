//! The pushed content: pseudo-random bytes derived from a name, so that a later run can verify them.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYER_BYTES: usize = 4096;
/// In characters; a complete config has about a kilobyte.
const FILLER_BYTES: usize = 350;
/// Block that a large layer repeats, each time after its own number.
const BLOCK: usize = 4 << 20;

/// Bytes from a seed (splitmix64): fast, and no compression finds anything in them.
struct Random(u64);

impl Random {
    fn of(name: &str) -> Self {
        let seed = Sha256::digest(name.as_bytes());
        Self(u64::from_le_bytes(std::array::from_fn(|index| seed[index])))
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = self.0;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// Content with its digest.
pub(crate) struct Blob {
    pub(crate) digest: String,
    pub(crate) bytes: Vec<u8>,
}

impl Blob {
    fn of(bytes: Vec<u8>) -> Self {
        Self { digest: digest(&bytes), bytes }
    }
}

/// A small image: no two names give the same content anywhere in it.
pub(crate) struct Image {
    pub(crate) tag: String,
    pub(crate) config: Blob,
    pub(crate) layer: Blob,
    pub(crate) manifest: Blob,
}

impl Image {
    pub(crate) fn of(name: &str) -> Self {
        let mut random = Random::of(name);
        let layer = Blob::of(random.bytes(LAYER_BYTES));
        let filler = hex(&random.bytes(FILLER_BYTES));
        let config = Blob::of(
            format!(
                "{{\"architecture\":\"amd64\",\"os\":\"linux\",\"created\":\"2026-01-01T00:00:00Z\",\"config\":{{\"User\":\"1000\",\
                 \"Cmd\":[\"/run\"],\"Labels\":{{\"example.bench\":\"{filler}\"}}}},\"rootfs\":{{\"type\":\"layers\",\
                 \"diff_ids\":[\"{}\"]}}}}",
                layer.digest
            )
            .into_bytes(),
        );
        let manifest = Blob::of(
            format!(
                "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST_TYPE}\",\"config\":{{\"mediaType\":\"{CONFIG_TYPE}\",\
                 \"digest\":\"{}\",\"size\":{}}},\"layers\":[{{\"mediaType\":\"{LAYER_TYPE}\",\"digest\":\"{}\",\"size\":{}}}]}}",
                config.digest,
                config.bytes.len(),
                layer.digest,
                layer.bytes.len()
            )
            .into_bytes(),
        );
        Self { tag: name.to_owned(), config, layer, manifest }
    }
}

/// A large layer, made while it is sent: only one block of it is in memory.
pub(crate) struct Layer {
    block: Vec<u8>,
    blocks: u64,
    pub(crate) digest: String,
}

impl Layer {
    pub(crate) fn of(name: &str, megabytes: u64) -> Self {
        let block = Random::of(name).bytes(BLOCK);
        let blocks = (megabytes << 20).div_ceil(BLOCK as u64);
        let mut layer = Self { block, blocks, digest: String::new() };
        let mut hash = Sha256::new();
        for number in 0..blocks {
            hash.update(layer.part(number));
        }
        layer.digest = format!("sha256:{}", hex(&hash.finalize()));
        layer
    }

    pub(crate) fn length(&self) -> u64 {
        self.blocks * BLOCK as u64
    }

    pub(crate) fn parts(&self) -> std::ops::Range<u64> {
        0..self.blocks
    }

    pub(crate) fn part(&mut self, number: u64) -> &[u8] {
        self.block[..8].copy_from_slice(&number.to_le_bytes());
        &self.block
    }
}

/// The digest of what comes part by part.
#[derive(Default)]
pub(crate) struct Arriving(Sha256);

impl Arriving {
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn digest(self) -> String {
        format!("sha256:{}", hex(&self.0.finalize()))
    }
}
