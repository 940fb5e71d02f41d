//! The name of a finished file: the 64 hex digits of its digest, a hyphen and a UUID. Nothing else ever becomes a path.

use std::path::PathBuf;

use uuid::Uuid;

use super::{Inner, StorageError};
use crate::Digest;

/// The name of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileName {
    pub(super) digest: Digest,
    id: Uuid,
}

impl FileName {
    pub(super) fn new(digest: Digest, id: Uuid) -> Self {
        Self { digest, id }
    }

    pub(super) fn parse(text: &str) -> Result<Self, StorageError> {
        let wrong = || StorageError::Name(text.chars().take(150).collect());
        let (hex, uuid) = text.split_once('-').ok_or_else(wrong)?;
        let digest = Digest::from_hex(hex).map_err(|_| wrong())?;
        let id = exact_uuid(uuid).ok_or_else(wrong)?;
        Ok(Self { digest, id })
    }

    /// Returns its directory below `blobs/`.
    pub(super) fn shard(&self) -> String {
        format!("{:02x}", self.digest.bytes()[0])
    }

    pub(super) fn path(&self, store: &Inner) -> PathBuf {
        store.blobs().join(self.shard()).join(self.to_string())
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.digest.hex(), self.id)
    }
}

/// Parses a UUID in the one spelling that this crate writes. The parser accepts others, and a file must not have two names.
pub(super) fn exact_uuid(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|uuid| uuid.to_string() == text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> FileName {
        FileName::new(Digest::of(b"content"), Uuid::from_u128(0x0190_abcd_0000_7000_8000_0000_0000_0001))
    }

    #[test]
    fn only_the_exact_spelling_is_a_name() {
        let good = name().to_string();
        assert_eq!(FileName::parse(&good).unwrap(), name());
        let (hex, uuid) = good.split_once('-').unwrap();
        for bad in [
            String::new(),
            hex.to_owned(),
            format!("{hex}-"),
            format!("../{good}"),
            format!("{good}/"),
            format!("{good}/../x"),
            format!("{good}\0"),
            format!("{good} "),
            format!("{}-{uuid}", hex.to_uppercase()),
            format!("{hex}-{}", uuid.to_uppercase()),
            format!("{hex}-{}", uuid.replace('-', "")),
            format!("{hex}-{{{uuid}}}"),
            format!("{hex}-urn:uuid:{uuid}"),
            format!("sha256:{good}"),
        ] {
            assert!(FileName::parse(&bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn parsed_file_name_round_trips(text in "[0-9a-f]{60,66}-[0-9a-f-]{30,40}|.{0,200}") {
            if let Ok(name) = FileName::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
