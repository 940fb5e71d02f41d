//! Network namespaces: a file that identifies one, and a way to work inside it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;
use std::thread;

use rustix::mount::{UnmountFlags, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::inside::Inside;
use crate::{NetworkError, command};

/// Magic number of the namespace file system; "nsfs" in ASCII.
const NSFS: i128 = 0x6e73_6673;

/// A network namespace. It is held open, so that it stays the same one whatever happens to its process or mount.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Opens the namespace at `path`; `None` if the file is missing or a regular one.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, NetworkError> {
        let name = path.display().to_string();
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(NetworkError::namespace(name, error)),
        };
        let kind = rustix::fs::fstatfs(&file).map_err(|error| NetworkError::namespace(&name, error))?;
        Ok((i128::from(kind.f_type) == NSFS).then_some(Self { name, file }))
    }

    /// Opens the namespace of a process.
    pub(crate) fn of_process(pid: u32) -> Result<Self, NetworkError> {
        Self::open(Path::new(&format!("/proc/{pid}/ns/net")))?
            .ok_or_else(|| NetworkError::Refused(format!("process {pid} is gone, and its network with it")))
    }

    /// Creates a persistent namespace, held by a mount over `path`.
    pub(crate) fn make(path: &Path) -> Result<Self, NetworkError> {
        if let Some(folder) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| NetworkError::file(folder, error))?;
        }
        File::create(path).map_err(|error| NetworkError::file(path, error))?;
        let argument = format!("--net={}", path.display());
        command::run("unshare", &[&argument, "true"], None)?;
        Self::open(path)?
            .ok_or_else(|| NetworkError::namespace(path.display(), "it was created but does not exist"))
    }

    /// Removes the mount and the file. The namespace's content ends with its last holder.
    pub(crate) fn remove(path: &Path) -> Result<(), NetworkError> {
        // A program that outlived its agent may have mounted a second one over the first.
        while Self::open(path)?.is_some() {
            unmount(path, UnmountFlags::DETACH)
                .map_err(|error| NetworkError::namespace(path.display(), error))?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(NetworkError::file(path, error)),
            _ => Ok(()),
        }
    }

    /// Returns a path for another program.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Returns its unique identity on this machine.
    pub(crate) fn identity(&self) -> Result<(u64, u64), NetworkError> {
        let facts = self.file.metadata().map_err(|error| NetworkError::namespace(&self.name, error))?;
        Ok((facts.dev(), facts.ino()))
    }

    /// Runs `work` inside it, on a thread of its own, so that no other thread is moved.
    pub(crate) fn enter<T: Send>(
        &self,
        work: impl FnOnce(&Inside) -> Result<T, NetworkError> + Send,
    ) -> Result<T, NetworkError> {
        let inside = || {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
                |error| NetworkError::namespace(&self.name, format!("it cannot be entered: {error}")),
            )?;
            work(&Inside::here())
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}
