//! What the layer in hand has put into the tree so far. A whiteout hides what lower layers left, never what comes from its own
//! layer, in whichever order the two are packed.

use std::collections::{HashMap, HashSet};

/// What the layer in hand has put there: names by the directory's inode, and every directory that leads to one.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    directories: HashSet<u64>,
    names: HashMap<u64, HashSet<Vec<u8>>>,
}

impl Marks {
    /// Something of this layer lies in this directory under this name.
    pub(crate) fn put(&mut self, directory: u64, name: &[u8]) {
        self.names.entry(directory).or_default().insert(name.to_vec());
    }

    /// This directory is of this layer, or leads to something that is.
    pub(crate) fn keep(&mut self, directory: u64) {
        self.directories.insert(directory);
    }

    /// A directory was removed, and its inode may soon be another's.
    pub(crate) fn forget(&mut self, directory: u64) {
        self.directories.remove(&directory);
        self.names.remove(&directory);
    }

    /// Something was removed from a directory.
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
