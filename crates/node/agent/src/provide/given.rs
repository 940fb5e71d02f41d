//! Content that the server supplied for a cell. None of it is ever printed: only its presence is.

use std::fmt;
use std::path::Path;

use http::HeaderValue;
use muster_cell::Secret;
use muster_image::{ImageHold, ImageReservation};
use zeroize::Zeroizing;

use super::store::Hold;

/// Content that the server supplied for a cell.
#[derive(Debug, Default)]
pub struct Given {
    /// Image, if it comes from the server.
    pub(crate) image: Option<Pulled>,
    pub(crate) secrets: Vec<SecretContent>,
}

impl Given {
    /// Returns the names of the content.
    pub fn names(&self) -> Vec<String> {
        let image = self.image.iter().map(|_| "image".to_owned());
        image.chain(self.secrets.iter().map(|told| format!("secret {}", told.file))).collect()
    }
}

/// A secret that becomes a file in the cell.
pub(crate) struct SecretContent {
    pub(super) file: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) content: Zeroizing<Vec<u8>>,
}

impl SecretContent {
    pub(crate) fn for_cell(&self) -> Secret<'_> {
        Secret { file: &self.file, uid: self.uid, gid: self.gid, content: &self.content }
    }
}

impl fmt::Debug for SecretContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretContent").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A pulled or already unpacked image. Its blobs are kept for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Pulled {
    pub(super) hold: Hold,
    /// Protects the unpacked image from eviction until the cell is created.
    pub(super) _image: Option<ImageHold>,
    /// Counts against the budget of its project until it is unpacked.
    pub(super) _reservation: Option<ImageReservation>,
}

impl Pulled {
    /// Returns the OCI layout that contains it.
    pub(crate) fn layout(&self) -> &Path {
        self.hold.layout()
    }

    /// Releases its layers after unpacking.
    pub(crate) fn unpacked(&self) {
        self.hold.finish();
    }
}

/// Registry token for one repository, valid for an hour.
#[derive(Clone)]
pub(crate) struct Token(HeaderValue);

impl Token {
    /// Parses the token from the server's response; none if it is invalid.
    pub(super) fn read(told: &[u8]) -> Option<Self> {
        let mut text = Zeroizing::new(b"Bearer ".to_vec());
        text.extend_from_slice(told);
        let mut value = HeaderValue::from_bytes(&text).ok().filter(|_| !told.is_empty())?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    pub(super) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::{Given, SecretContent, Token};

    #[test]
    fn nothing_secret_is_printed() {
        let content = Zeroizing::new(b"hunter2".to_vec());
        let given = Given {
            image: None,
            secrets: vec![SecretContent { file: "password".into(), uid: 0, gid: 0, content }],
        };
        let bytes = format!("{:?}", b"hunter2");
        let token = Token::read(b"hunter2").unwrap();
        for shown in [format!("{given:?}"), format!("{token:?}"), format!("{:?}", token.header())] {
            assert!(!shown.contains("hunter2") && !shown.contains(&bytes[1..bytes.len() - 1]), "{shown}");
        }
        assert_eq!(given.names(), ["secret password"]);
    }

    #[test]
    fn token_that_would_inject_a_header_is_refused() {
        for wrong in [&b""[..], b"a\r\nHost: b", b"a\0"] {
            assert!(Token::read(wrong).is_none());
        }
    }
}
