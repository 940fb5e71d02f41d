//! Digests as file names, and hashing of streamed content.

use std::io::{self, Read};

use muster_ids::Digest;
use sha2::{Digest as _, Sha256};

/// Returns the name of a file or folder: `sha256-…`. A digest has only digits, so this is never a path.
pub(crate) fn file_name(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex())
}

/// Parses a file name.
pub(crate) fn from_file_name(name: &str) -> Option<Digest> {
    name.strip_prefix("sha256-").and_then(|hex| Digest::from_hex(hex).ok())
}

/// Reader that hashes the data of another one, and fails beyond a number of bytes.
pub(crate) struct Metered<R> {
    inner: R,
    hash: Sha256,
    passed: u64,
    most: u64,
    beyond: String,
}

impl<R: Read> Metered<R> {
    /// Wraps a reader. `beyond` is the error for more than `most` bytes.
    pub(crate) fn new(inner: R, most: u64, beyond: String) -> Self {
        Self { inner, hash: Sha256::new(), passed: 0, most, beyond }
    }

    /// Returns the number of bytes read, and their digest.
    pub(crate) fn finish(self) -> (u64, Digest) {
        (self.passed, Digest::from_bytes(self.hash.finalize().into()))
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.passed += read as u64;
        if self.passed > self.most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, self.beyond.clone()));
        }
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_name_of_a_folder() {
        let digest = Digest::of(b"");
        assert_eq!(from_file_name(&file_name(&digest)), Some(digest));
        for name in ["", "sha256-", "sha256-../x", "sha512-e3b0"] {
            assert_eq!(from_file_name(name), None, "{name}");
        }
    }
}
