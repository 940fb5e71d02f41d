//! The name of content: `sha256:` and 64 hexadecimal digits.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some content, and so its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no digest: sha256: and 64 lower-case hexadecimal digits are expected")]
pub struct DigestError(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 64 hexadecimal digits alone.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As the name of a file or folder: `sha256-…`. A digest is nothing but digits, so this can never be a path.
    pub(crate) fn file_name(&self) -> String {
        format!("sha256-{}", self.hex())
    }

    /// The other way round.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        name.strip_prefix("sha256-").and_then(from_hex)
    }
}

fn from_hex(hex: &str) -> Option<Digest> {
    let lower_case = hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if hex.len() != 64 || !lower_case {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(Digest(bytes))
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.strip_prefix("sha256:").and_then(from_hex).ok_or_else(|| {
            let shown: String = text.chars().take(100).collect();
            DigestError(shown)
        })
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads through to another reader, hashes what passes, and refuses to go beyond a number of bytes.
pub(crate) struct Metered<R> {
    inner: R,
    hash: Sha256,
    passed: u64,
    most: u64,
    beyond: String,
}

impl<R: Read> Metered<R> {
    /// `beyond` is the sentence that is said when there is more than `most`.
    pub(crate) fn new(inner: R, most: u64, beyond: String) -> Self {
        Self { inner, hash: Sha256::new(), passed: 0, most, beyond }
    }

    /// How many bytes came through, and their digest.
    pub(crate) fn finish(self) -> (u64, Digest) {
        (self.passed, Digest(self.hash.finalize().into()))
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
    fn a_digest_is_its_text() {
        let digest = Digest::of(b"");
        let text = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(Digest::from_file_name(&digest.file_name()), Some(digest));
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for text in [
            "",
            hex,
            &format!("sha512:{hex}"),
            &format!("sha256:{}", &hex[1..]),
            &format!("sha256:{}", hex.to_uppercase()),
            &format!("sha256:+{}", &hex[1..]),
            &format!("sha256:{hex}/"),
            &format!("sha256:../{}", &hex[3..]),
            &format!("sha256:é{}", &hex[2..]),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
