//! The agent's folder: its key, its certificate, and the state that must survive a crash.
//!
//! Every file is written to a temporary name and then renamed, so that a reader never finds a partial file. A few small
//! documents do not warrant a database.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::AgentError;

/// With less room than this the next write may fail.
const LEAST_FREE_KIB: u64 = 1024;

/// A folder accessible only to its owner.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    flush: bool,
}

/// Exclusive lock of an agent on its folder.
#[derive(Debug)]
pub struct Lock(
    #[expect(dead_code, reason = "the file is held, never read: closing it releases the lock")] File,
);

impl Lock {
    /// Keeps the lock until this process ends, because work on other threads can outlast the caller.
    pub fn keep_until_exit(self) {
        Box::leak(Box::new(self));
    }
}

impl Folder {
    /// Returns the folder at `path`. Files in it are flushed to disk, and so survive a power cut.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), flush: true }
    }

    /// Returns a folder without flushing, for simulated fleets, where a thousand nodes would wait for one disk. Its files
    /// survive the process but perhaps not the machine.
    pub fn unflushed(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), flush: false }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Describes the shortage if its disk is full.
    pub(crate) fn shortage(&self) -> Option<String> {
        let system = rustix::fs::statvfs(&self.path).ok()?;
        let free = system.f_bavail.saturating_mul(system.f_frsize) >> 10;
        (free < LEAST_FREE_KIB).then(|| "the node's disk is full: free space on it".to_owned())
    }

    /// Creates the folder if it is missing.
    pub fn make(&self) -> Result<(), AgentError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| AgentError::file(&self.path, format!("the folder cannot be created: {error}")))
    }

    /// Locks the folder until the lock is dropped.
    pub fn lock(&self) -> Result<Lock, AgentError> {
        let path = self.path.join("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|error| AgentError::file(&path, error))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(AgentError::Refused(format!(
                "another agent already works in {}: stop it, or choose another --data-dir",
                self.path.display()
            ))),
            Err(error) => Err(AgentError::file(&path, error)),
        }
    }

    /// Returns the text of a file; `None` if it is missing.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, AgentError> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(AgentError::file(&path, error)),
        }
    }

    /// Reads a file with a secret. Fails if other users may read it.
    pub(crate) fn read_secret(&self, name: &str) -> Result<Option<String>, AgentError> {
        let path = self.path.join(name);
        if let Ok(facts) = fs::metadata(&path)
            && facts.permissions().mode() & 0o077 != 0
        {
            return Err(AgentError::file(
                &path,
                "other users can read it: `chmod 600` it, if it was not read already",
            ));
        }
        self.read(name)
    }

    /// Replaces a file's text atomically.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<(), AgentError> {
        let (path, fresh) = (self.path.join(name), self.path.join(format!(".{name}.new")));
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            file.write_all(text.as_bytes())?;
            if self.flush {
                file.sync_all()?;
            }
            drop(file);
            fs::rename(&fresh, &path)?;
            // Flushing the folder persists the rename.
            if self.flush { File::open(&self.path)?.sync_all() } else { Ok(()) }
        };
        write().map_err(|error: std::io::Error| {
            AgentError::file(&path, format!("it cannot be written: {error}"))
        })
    }

    /// Removes a file if it exists.
    pub(crate) fn remove(&self, name: &str) -> Result<(), AgentError> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(AgentError::file(&path, error)),
            _ => Ok(()),
        }
    }

    /// Returns a document; `None` if it is missing. An unreadable document is an error: continuing without it would lose
    /// state that must be kept.
    pub fn read_document<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, AgentError> {
        let Some(text) = self.read(name)? else { return Ok(None) };
        let document = serde_json::from_str(&text);
        document.map(Some).map_err(|error| {
            AgentError::file(&self.path.join(name), format!("it belongs to another program: {error}"))
        })
    }

    pub fn write_document<T: Serialize>(&self, name: &str, document: &T) -> Result<(), AgentError> {
        let text = serde_json::to_string(document)
            .map_err(|error| AgentError::file(&self.path.join(name), error))?;
        self.write(name, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::Folder;

    #[test]
    fn written_file_is_readable_by_its_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path().join("deep/agent"));
        folder.make().unwrap();
        folder.write("key.pem", "secret").unwrap();
        let mode =
            |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("."), mode("key.pem")), (0o700, 0o600));
        assert_eq!(folder.read_secret("key.pem").unwrap().as_deref(), Some("secret"));
        std::fs::set_permissions(folder.path().join("key.pem"), std::fs::Permissions::from_mode(0o640))
            .unwrap();
        assert!(folder.read_secret("key.pem").unwrap_err().to_string().contains("other users can read it"));
    }

    #[test]
    fn a_disk_without_room_is_described() {
        // The kernel reports that its own file system has no room.
        assert!(Folder::new("/proc").shortage().unwrap().contains("full"));
        assert_eq!(Folder::new(std::env::temp_dir()).shortage(), None);
    }

    #[test]
    fn two_agents_do_not_work_in_one_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path());
        let held = folder.lock().unwrap();
        assert!(folder.lock().unwrap_err().to_string().contains("another agent"));
        drop(held);
        folder.lock().unwrap();
    }

    #[test]
    fn a_document_that_cannot_be_read_is_not_taken_for_absent() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::new(parent.path());
        assert_eq!(folder.read_document::<Vec<u8>>("a.json").unwrap(), None);
        folder.write("a.json", "[1, 2").unwrap();
        assert!(folder.read_document::<Vec<u8>>("a.json").is_err());
    }
}
