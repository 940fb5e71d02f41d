//! Record that `muster up --nodes` writes before it creates anything, so that the next `up` and `muster down` can find
//! it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::up::testbed::Testbed;

/// Nodes of a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Number of nodes: `n1` and on. It never shrinks, because a node's contents remain even if it is not started.
    pub(crate) nodes: u8,
    /// Kind of the nodes.
    pub(crate) kind: Kind,
}

/// Kind of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Simulated: allocations are only records.
    Simulated,
    /// Namespaces and links of this machine.
    Cells(Testbed),
}

/// Locked folder of the nodes in a data folder.
pub(crate) struct Nodes {
    path: PathBuf,
    #[expect(dead_code, reason = "the file is held, never read: closing it releases the lock")]
    lock: File,
}

/// Returns the path of the nodes in a data folder.
fn path(data: &Path) -> PathBuf {
    data.join("nodes")
}

impl Nodes {
    /// Creates the folder if missing, and locks it until dropped.
    pub(crate) fn make(data: &Path) -> anyhow::Result<Self> {
        let path = path(data);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.with_context(|| format!("the folder {} cannot be created", path.display()))?;
        Self::hold(path)
    }

    /// Returns the folder, if there is one.
    pub(crate) fn find(data: &Path) -> anyhow::Result<Option<Self>> {
        let path = path(data);
        if path.is_dir() { Self::hold(path).map(Some) } else { Ok(None) }
    }

    fn hold(path: PathBuf) -> anyhow::Result<Self> {
        let file = path.join("up.lock");
        let doing = || format!("locking {}", file.display());
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&file);
        let lock = lock.with_context(doing)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, lock }),
            Err(TryLockError::WouldBlock) => {
                bail!("`muster up` or `muster down` already runs with {}: stop it first", path.display())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(doing),
        }
    }

    /// Returns the folder shared by all nodes, which on one machine is on its own file system; created if missing.
    pub(crate) fn shared_files(&self) -> anyhow::Result<PathBuf> {
        let path = self.path.join("shared");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.with_context(|| format!("the folder {} cannot be created", path.display()))?;
        Ok(path)
    }

    /// Returns the data folder of a node.
    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads the record.
    pub(crate) fn read(&self) -> anyhow::Result<Option<Record>> {
        read(&self.file())
    }

    /// Writes the record atomically.
    pub(crate) fn write(&self, record: &Record) -> anyhow::Result<()> {
        let (file, fresh) = (self.file(), self.path.join(".up.json.new"));
        let text = serde_json::to_string(record)?;
        let write = || {
            let mut writer =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            writer.write_all(text.as_bytes())?;
            writer.sync_all()?;
            fs::rename(&fresh, &file)?;
            File::open(&self.path)?.sync_all()
        };
        write().with_context(|| format!("{} cannot be written", file.display()))
    }

    fn file(&self) -> PathBuf {
        file(&self.path)
    }
}

fn file(nodes: &Path) -> PathBuf {
    nodes.join("up.json")
}

/// Reads the record of another data folder, without a lock.
pub(crate) fn peek(data: &Path) -> anyhow::Result<Option<Record>> {
    read(&file(&path(data)))
}

fn read(file: &Path) -> anyhow::Result<Option<Record>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| format!("reading {}", file.display())),
    };
    let record = serde_json::from_str(&text);
    record.map(Some).with_context(|| format!("{} belongs to another program", file.display()))
}

/// Returns the names of this many nodes.
pub(crate) fn names(nodes: u8) -> impl Iterator<Item = String> {
    (1..=nodes).map(|number| format!("n{number}"))
}

#[cfg(test)]
mod tests {
    use super::{Kind, Nodes, Record};

    #[test]
    fn written_record_is_found_and_read_again() {
        let data = tempfile::tempdir().unwrap();
        assert!(Nodes::find(data.path()).unwrap().is_none());
        let nodes = Nodes::make(data.path()).unwrap();
        assert_eq!(nodes.read().unwrap(), None);
        let record = Record { nodes: 3, kind: Kind::Simulated };
        nodes.write(&record).unwrap();
        drop(nodes);
        assert_eq!(Nodes::find(data.path()).unwrap().unwrap().read().unwrap(), Some(record));
    }

    #[test]
    fn two_do_not_work_with_one_folder() {
        let data = tempfile::tempdir().unwrap();
        let held = Nodes::make(data.path()).unwrap();
        let refused = Nodes::find(data.path()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("stop it first"), "{refused}");
        drop(held);
        Nodes::find(data.path()).unwrap().unwrap();
    }
}
