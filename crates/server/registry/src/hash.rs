//! An incremental digest.
//!
//! Uses aws-lc-rs. On processors with SHA-256 instructions, sha2 is just as fast (1.8 GB/s each, measured over 256 MiB); on
//! others, sha2 falls back to portable code and aws-lc-rs does not.

use aws_lc_rs::digest::{Context, SHA256};
use muster_ids::Digest;

/// An incremental digest.
#[derive(Clone)]
pub(crate) struct Hash(Context);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of the bytes so far; more can follow.
    pub(crate) fn digest(&self) -> Digest {
        let digest = self.0.clone().finish();
        Digest::from_bytes(digest.as_ref().try_into().expect("a SHA-256 has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_can_be_looked_at_on_its_way() {
        let mut hash = Hash::new();
        hash.update(b"one");
        assert_eq!(hash.digest(), Digest::of(b"one"));
        hash.update(b"two");
        assert_eq!(hash.digest(), Digest::of(b"onetwo"));
    }
}
