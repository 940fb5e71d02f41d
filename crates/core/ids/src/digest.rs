//! Content digests: `sha256:` and 64 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256 of some content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid digest {0:?}: expected sha256: and 64 lower-case hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// Returns the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of these parts, concatenated.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        parts.into_iter().for_each(|part| hash.update(part));
        Self(hash.finalize().into())
    }

    /// Wraps a digest's own bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = String::with_capacity(64);
        for byte in self.0 {
            hex.push(char::from(DIGITS[usize::from(byte >> 4)]));
            hex.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        hex
    }

    /// Returns the 32 bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        read(hex).ok_or_else(|| DigestError(hex.chars().take(100).collect()))
    }
}

fn read(hex: &str) -> Option<Digest> {
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
        text.strip_prefix("sha256:").and_then(read).ok_or_else(|| {
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

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_its_text() {
        let digest = Digest::of(b"");
        let text = format!("sha256:{EMPTY}");
        assert_eq!(digest.to_string(), text);
        assert_eq!(digest.hex(), EMPTY);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(serde_json::to_string(&digest).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Digest>(&format!("\"{text}\"")).unwrap(), digest);
        assert_eq!(Digest::from_bytes(*digest.bytes()), digest);
        assert_eq!(Digest::from_hex(EMPTY), Ok(digest));
        assert_eq!(Digest::of_parts([&b"a"[..], b"bc"]), Digest::of(b"abc"));
    }

    #[test]
    fn digests_sort_as_their_texts_do() {
        let mut digests: Vec<Digest> = (0..64_u8).map(|byte| Digest::of(&[byte])).collect();
        digests.sort();
        assert!(digests.windows(2).all(|pair| pair[0].to_string() < pair[1].to_string()));
    }

    #[test]
    fn malformed_digest_is_refused() {
        for text in [
            "",
            EMPTY,
            &format!("sha512:{EMPTY}"),
            &format!("sha256:{}", &EMPTY[1..]),
            &format!("sha256:{}", EMPTY.to_uppercase()),
            &format!("sha256:+{}", &EMPTY[1..]),
            &format!("sha256:{EMPTY}/"),
            &format!("sha256:../{}", &EMPTY[3..]),
            &format!("sha256:é{}", &EMPTY[2..]),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
            assert!(serde_json::from_value::<Digest>(text.into()).is_err(), "{text}");
        }
    }
}
