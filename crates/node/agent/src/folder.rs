//! The agent's folder: its key, its certificate, and what must outlive a crash.
//!
//! Every file is written beside its place and then renamed over it, so that a reader meets the old text or the new one
//! and never half of either. A database was left aside: what an agent keeps is a handful of small documents.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::AgentError;

/// A folder that only its owner may look into.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
    flush: bool,
}

/// Held while an agent works in a folder; another that wants to is refused.
#[derive(Debug)]
pub struct Lock(
    #[expect(dead_code, reason = "the file is held, never read: closing it gives the lock back")] File,
);

impl Lock {
    /// Keeps others out until this process ends, because work on other threads can outlast the caller.
    pub fn keep_until_exit(self) {
        Box::leak(Box::new(self));
    }
}

impl Folder {
    /// The folder at `path`. What is written there is flushed to the disk, and so outlives a power cut.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), flush: true }
    }

    /// One whose files outlive the process but perhaps not the machine: for fleets that are simulated, where a
    /// thousand nodes would wait for one disk.
    pub fn unflushed(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), flush: false }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it, unless it is there.
    pub fn make(&self) -> Result<(), AgentError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(|error| AgentError::file(&self.path, format!("the folder cannot be made: {error}")))
    }

    /// Keeps others out until it is dropped.
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

    /// The text of a file; `None` if it is not there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, AgentError> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(AgentError::file(&path, error)),
        }
    }

    /// A file that holds a secret: it is refused when others may read it.
    pub(crate) fn read_secret(&self, name: &str) -> Result<Option<String>, AgentError> {
        let path = self.path.join(name);
        if let Ok(facts) = fs::metadata(&path)
            && facts.permissions().mode() & 0o077 != 0
        {
            return Err(AgentError::file(
                &path,
                "others may read it: `chmod 600` it, if it was not read already",
            ));
        }
        self.read(name)
    }

    /// Replaces a file's text in one step.
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
            // The rename itself lives in the folder.
            if self.flush { File::open(&self.path)?.sync_all() } else { Ok(()) }
        };
        write().map_err(|error: std::io::Error| {
            AgentError::file(&path, format!("it cannot be written: {error}"))
        })
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), AgentError> {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(AgentError::file(&path, error)),
            _ => Ok(()),
        }
    }

    /// A document; `None` if it is not there. One that cannot be read is an error: to go on as if nothing had been
    /// written would forget what must not be forgotten.
    pub(crate) fn read_document<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, AgentError> {
        let Some(text) = self.read(name)? else { return Ok(None) };
        let document = serde_json::from_str(&text);
        document
            .map(Some)
            .map_err(|error| AgentError::file(&self.path.join(name), format!("it is not ours: {error}")))
    }

    pub(crate) fn write_document<T: Serialize>(&self, name: &str, document: &T) -> Result<(), AgentError> {
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
    fn what_is_written_is_readable_by_its_owner_alone() {
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
        assert!(folder.read_secret("key.pem").unwrap_err().to_string().contains("others may read it"));
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
