//! Names of resources, besides their ids.

use std::fmt;

/// Pattern of every name, as published in the schema. No dots: `tenant.project` is a qualified name. No underscore followed
/// by 26 characters can occur, so a name is never mistaken for an id.
pub const PATTERN: &str = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$";

/// A lower-case name of up to 63 characters, valid as a DNS label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Parses `text` if it matches [`PATTERN`].
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let fits = (1..=63).contains(&bytes.len())
            && bytes[0].is_ascii_lowercase()
            && bytes[bytes.len() - 1] != b'-'
            && bytes.iter().all(inner);
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn names_are_dns_labels() {
        for good in ["a", "train-2", "x".repeat(63).as_str()] {
            assert!(Name::parse(good).is_some(), "{good}");
        }
        for bad in ["", "A", "1a", "-a", "a-", "a.b", "a_b", "ä", "a b", "a\n", "x".repeat(64).as_str()] {
            assert!(Name::parse(bad).is_none(), "{bad:?}");
        }
    }
}
