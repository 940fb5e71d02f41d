//! The files in which a kernel describes its machine, below some root.

use std::fs;
use std::path::{Path, PathBuf};

/// A machine's files. Paths are given without a leading slash.
pub(super) struct Tree<'a> {
    root: &'a Path,
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    /// What a file says, without the blanks around it; nothing if it cannot be read. Many files of `/sys` are there
    /// but answer with an error, such as the speed of a link that is down.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(lossy(&fs::read(self.root.join(path)).ok()?))
    }

    /// The same for a file that every machine should have: if it cannot be read, the reason is noted.
    pub(super) fn needed(&self, path: &str, notes: &mut Vec<String>) -> String {
        match fs::read(self.root.join(path)) {
            Ok(bytes) => lossy(&bytes),
            Err(error) => {
                notes.push(format!("/{path} could not be read: {error}."));
                String::new()
            }
        }
    }

    /// A file that holds one number.
    pub(super) fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// What is in a folder, sorted; nothing if there is no such folder.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Whether the path leads anywhere.
    pub(super) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The last part of what a link points to, as `/sys` names a device's driver.
    pub(super) fn target(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// The path with every link followed.
    pub(super) fn resolved(&self, path: &str) -> Option<PathBuf> {
        fs::canonicalize(self.root.join(path)).ok()
    }
}

fn lossy(bytes: &[u8]) -> String {
    // Device names may hold bytes that no standard explains; a damaged name is better than none.
    String::from_utf8_lossy(bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}
