//! Entries that the current layer has created so far. A whiteout hides entries of lower layers, never of its own layer, in
//! whatever order the two are packed.

use std::collections::{HashMap, HashSet};

/// Entries of the current layer: names by the directory's inode, and every directory that leads to one.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    directories: HashSet<u64>,
    names: HashMap<u64, HashSet<Vec<u8>>>,
}

impl Marks {
    /// Records an entry of this layer in a directory.
    pub(crate) fn put(&mut self, directory: u64, name: &[u8]) {
        self.names.entry(directory).or_default().insert(name.to_vec());
    }

    /// Records a directory of this layer, or one that leads to an entry of it.
    pub(crate) fn keep(&mut self, directory: u64) {
        self.directories.insert(directory);
    }

    /// Forgets a removed directory, because its inode may be reused.
    pub(crate) fn forget(&mut self, directory: u64) {
        self.directories.remove(&directory);
        self.names.remove(&directory);
    }

    /// Forgets an entry removed from a directory.
    pub(crate) fn take(&mut self, directory: u64, name: &[u8]) {
        if let Some(names) = self.names.get_mut(&directory) {
            names.remove(name);
        }
    }

    pub(crate) fn keeps(&self, directory: u64) -> bool {
        self.directories.contains(&directory)
    }

    pub(crate) fn has(&self, directory: u64, name: &[u8]) -> bool {
        self.names.get(&directory).is_some_and(|names| names.contains(name))
    }
}
