//! Names of members, as in layers: normalized, or refused.

use std::io;

use crate::error::refused;

const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const RESERVED: &[u8] = b".wh..wh.";

/// A path inside the root: components that are neither empty nor `.` nor `..`, without a slash or a NUL. No component is the
/// root itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name(Vec<Vec<u8>>);

/// Meaning of a member's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// An entry with this name.
    Make(Name),
    /// A whiteout of this entry of lower layers.
    Hide(Name),
    /// A whiteout of all entries of lower layers in this directory.
    HideAllIn(Name),
    /// None: metadata of another tool.
    Nothing,
}

impl Name {
    /// Parses a name. A leading slash means the image's root, as in container tools. `..` is refused rather than resolved:
    /// no builder writes it, and `a/../b` is ambiguous if `a` is a link.
    pub(crate) fn parse(bytes: &[u8], depth: usize) -> io::Result<Self> {
        if bytes.is_empty() {
            return Err(refused("its name is empty"));
        }
        if bytes.len() >= PATH_MAX {
            return Err(refused(format!("its name is longer than {PATH_MAX} bytes")));
        }
        if bytes.contains(&0) {
            return Err(refused("its name contains a NUL"));
        }
        let mut components = Vec::new();
        for component in bytes.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => return Err(refused("its name contains ..")),
                _ if component.len() > NAME_MAX => {
                    return Err(refused(format!("a part of its name is longer than {NAME_MAX} bytes")));
                }
                _ => components.push(component.to_vec()),
            }
        }
        if components.len() > depth {
            return Err(refused(format!("it is deeper than {depth} directories")));
        }
        Ok(Self(components))
    }

    /// Returns its directory, and its name there. The root has none.
    pub(crate) fn split(&self) -> Option<(&[Vec<u8>], &[u8])> {
        self.0.split_last().map(|(last, parent)| (parent, last.as_slice()))
    }

    /// Returns its components.
    pub(crate) fn components(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// Returns the meaning of a member's name, by the rules of whiteouts.
    pub(crate) fn asked(mut self) -> io::Result<Asked> {
        let Some(last) = self.0.last_mut() else { return Ok(Asked::Make(self)) };
        if last == OPAQUE {
            self.0.pop();
            return Ok(Asked::HideAllIn(self));
        }
        if last.starts_with(RESERVED) {
            return Ok(Asked::Nothing);
        }
        let Some(hidden) = last.strip_prefix(WHITEOUT) else {
            if self.0.iter().any(|component| component.starts_with(WHITEOUT)) {
                return Err(refused("it is inside an entry that is named like a whiteout"));
            }
            return Ok(Asked::Make(self));
        };
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(refused("it is a whiteout without a name"));
        }
        *last = hidden.to_vec();
        Ok(Asked::Hide(self))
    }
}

/// Returns a path for the kernel, relative to the root.
pub(crate) fn joined(components: &[Vec<u8>]) -> Vec<u8> {
    if components.is_empty() { b".".to_vec() } else { components.join(&b'/') }
}

/// Formats a name for display: escaped and truncated.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(200)];
    let dots = if cut.len() < bytes.len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text.as_bytes(), 128).unwrap()
    }

    #[test]
    fn absolute_names_dots_and_slashes_are_brought_into_one_form() {
        for text in ["a/b", "/a/b", "./a/b", "a//b/", "/./a/./b", "///a/b"] {
            assert_eq!(name(text), name("a/b"), "{text}");
        }
        assert_eq!(name("./"), Name(Vec::new()));
        assert_eq!(joined(name("/").components()), b".");
    }

    #[test]
    fn names_that_lead_elsewhere_or_nowhere_are_refused() {
        let long = "x".repeat(256);
        let longer = "x/".repeat(2048);
        let deep = "x/".repeat(129);
        for text in ["", "..", "../a", "a/..", "a/../b", "/..", "a\0b", &long, &longer, &deep] {
            assert!(Name::parse(text.as_bytes(), 128).is_err(), "{text}");
        }
        assert!(Name::parse(b"...", 128).is_ok());
    }

    #[test]
    fn whiteouts_are_told_from_members() {
        assert_eq!(name("a/.wh.b").asked().unwrap(), Asked::Hide(name("a/b")));
        assert_eq!(name("a/.wh..wh..opq").asked().unwrap(), Asked::HideAllIn(name("a")));
        assert_eq!(name(".wh..wh..opq").asked().unwrap(), Asked::HideAllIn(name("/")));
        assert_eq!(name("a/.wh..wh.plnk").asked().unwrap(), Asked::Nothing);
        assert_eq!(name("a/.which").asked().unwrap(), Asked::Make(name("a/.which")));
        for text in [".wh.", ".wh..", ".wh...", "a/.wh...", ".wh.a/b"] {
            assert!(name(text).asked().is_err(), "{text}");
        }
    }
}
