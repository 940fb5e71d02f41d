//! The kernel's description of its machine, below some root.

use std::fs;
use std::path::{Path, PathBuf};

/// Files of a machine. Paths have no leading slash.
pub(super) struct Tree<'a> {
    root: &'a Path,
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// Returns the trimmed content of a file; none if it cannot be read. Many files in `/sys` exist but fail to read, such
    /// as the speed of a link that is down.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(lossy(&fs::read(self.root.join(path)).ok()?))
    }

    /// Like `text`, for a file that every machine should have: a read error is noted.
    pub(super) fn needed(&self, path: &str, notes: &mut Vec<String>) -> String {
        match fs::read(self.root.join(path)) {
            Ok(bytes) => lossy(&bytes),
            Err(error) => {
                notes.push(format!("/{path} could not be read: {error}."));
                String::new()
            }
        }
    }

    /// Reads a file with one number.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// Returns the sorted names in a folder; empty if there is no such folder.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Reports whether the path exists.
    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Returns the last component of a link's target, which is how `/sys` names a device's driver.
    pub(super) fn target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns the path with every link resolved.
    pub(super) fn resolved(&self, path: &str) -> Option<PathBuf> {
        fs::canonicalize(self.root.join(path)).ok()
    }
}

fn lossy(bytes: &[u8]) -> String {
    // Device names may contain undefined bytes; a damaged name is better than none.
    String::from_utf8_lossy(bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}
