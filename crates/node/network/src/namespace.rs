//! Network namespaces: a file that stands for one, and a way to work inside it.

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

/// The file system whose files are namespaces; the word "nsfs" in letters.
const NSFS: i128 = 0x6e73_6673;

/// A network namespace. It is held open, so that it stays the same one whatever happens to the process or the mount
/// that it was found by.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// The one that `path` stands for; `None` if there is no such file, or a plain one.
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

    /// The one that a process is in.
    pub(crate) fn of_process(pid: u32) -> Result<Self, NetworkError> {
        Self::open(Path::new(&format!("/proc/{pid}/ns/net")))?
            .ok_or_else(|| NetworkError::Refused(format!("process {pid} is gone, and its network with it")))
    }

    /// Makes one that stays until it is removed, held by a mount over `path`.
    pub(crate) fn make(path: &Path) -> Result<Self, NetworkError> {
        if let Some(folder) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| NetworkError::file(folder, error))?;
        }
        File::create(path).map_err(|error| NetworkError::file(path, error))?;
        let argument = format!("--net={}", path.display());
        command::run("unshare", &[&argument, "true"], None)?;
        Self::open(path)?
            .ok_or_else(|| NetworkError::namespace(path.display(), "it was made but is not there"))
    }

    /// Takes away the mount and the file. What is still in the namespace goes with it once nobody else holds it.
    pub(crate) fn remove(path: &Path) -> Result<(), NetworkError> {
        // A program that outlived the agent that started it may have mounted a second one over the first.
        while Self::open(path)?.is_some() {
            unmount(path, UnmountFlags::DETACH)
                .map_err(|error| NetworkError::namespace(path.display(), error))?;
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(NetworkError::file(path, error)),
            _ => Ok(()),
        }
    }

    /// A path by which another program finds it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// What tells it from every other one on this machine.
    pub(crate) fn identity(&self) -> Result<(u64, u64), NetworkError> {
        let facts = self.file.metadata().map_err(|error| NetworkError::namespace(&self.name, error))?;
        Ok((facts.dev(), facts.ino()))
    }

    /// Works inside it. A thread of its own goes there and ends there, so that nothing else is moved.
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
