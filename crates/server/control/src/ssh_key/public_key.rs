//! Parser for public keys in OpenSSH format.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest as _, Sha256};

const ALGORITHMS: &[&str] = &[
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
];

/// Maximum length of a key in bytes, with its algorithm.
const LONGEST: usize = 2_048;

/// A key without its comment and options: it can express nothing beyond access.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    pub(super) line: String,
    pub(super) fingerprint: String,
}

/// Parses the content of a `.pub` file.
pub(super) fn parse(text: &str) -> Result<PublicKey, &'static str> {
    let text = text.trim();
    if text.lines().count() != 1 {
        return Err("one key, on one line: the text of the .pub file");
    }
    if text.contains("PRIVATE KEY") {
        return Err(
            "this is a private key: generate another pair, as this one was disclosed, and send its .pub file",
        );
    }
    let mut words = text.split_ascii_whitespace();
    let (algorithm, encoded) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !ALGORITHMS.contains(&algorithm) {
        return Err("it must begin with its algorithm, such as ssh-ed25519; options are not allowed");
    }
    // Every node with a cell of the project receives it: an RSA key of 8,192 bits has 1,400 bytes.
    if algorithm.len() + encoded.len() > LONGEST {
        return Err("the key is longer than 2048 bytes: use an Ed25519 key, or RSA of at most 8192 bits");
    }
    let bytes = STANDARD.decode(encoded).map_err(|_| "the second field is not base64")?;
    // The encoded key repeats its algorithm; this detects a text assembled from two keys.
    let named = bytes.get(4..4 + algorithm.len()).is_some_and(|inside| inside == algorithm.as_bytes());
    let length = bytes.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize);
    if !named || length != Some(algorithm.len()) || bytes.len() < algorithm.len() + 32 {
        return Err("the key is cut off, or its algorithm differs from its first field");
    }
    let fingerprint = format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(&bytes)));
    Ok(PublicKey { line: format!("{algorithm} {encoded}"), fingerprint })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generated with ssh-keygen; its private key was never kept.
    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7 me@example";

    #[test]
    fn a_key_is_kept_without_its_comment() {
        let key = parse(KEY).unwrap();
        assert_eq!(key.line, KEY.rsplit_once(' ').unwrap().0);
        assert!(key.fingerprint.starts_with("SHA256:") && key.fingerprint.len() == 50);
    }

    #[test]
    fn public_key_with_options_or_malformed_content_is_refused() {
        for bad in [
            "",
            "ssh-ed25519",
            "ssh-ed25519 notbase64!",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA",
            "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIA0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7",
            &format!("command=\"/bin/sh\" {KEY}"),
            &format!("{KEY}\n{KEY}"),
            "-----BEGIN OPENSSH PRIVATE KEY-----",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
