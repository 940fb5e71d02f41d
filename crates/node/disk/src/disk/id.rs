//! Id of a disk.

use std::fmt;
use std::str::FromStr;

/// Id of a disk: `[a-z0-9_]{1,64}`, so it can be no path, option or pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiskId(String);

/// A text that is no valid disk id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a disk: use 1 to 64 of a-z, 0-9 and _")]
pub struct DiskIdError(String);

impl DiskId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DiskId {
    type Err = DiskIdError;

    fn from_str(text: &str) -> Result<Self, DiskIdError> {
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if fits { Ok(Self(text.to_owned())) } else { Err(DiskIdError(text.chars().take(100).collect())) }
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_names_of_disks() {
        assert!("alc_01h7".parse::<DiskId>().is_ok() && "x".repeat(64).parse::<DiskId>().is_ok());
        for text in ["", "..", "a/b", "a.b", "-a", "A", "a b", "a\0", "ä", &"x".repeat(65)] {
            assert!(text.parse::<DiskId>().is_err(), "{text:?}");
        }
    }
}
