//! The root of an image on disk, accessed from its open directory: nothing reachable from here is outside.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;

use crate::error::refused;
use crate::name::{joined, shown};

/// Retries after a concurrent rename elsewhere on the node interrupted a lookup.
const TRIES: usize = 1000;

/// The root.
pub(crate) struct Root {
    fd: OwnedFd,
    identity: (u64, u64),
    depth: usize,
}

/// A directory inside the root.
pub(crate) struct Place {
    pub(crate) fd: OwnedFd,
    pub(crate) inode: u64,
    depth: usize,
}

impl Root {
    /// Opens the root. `depth` is the maximum depth of a directory.
    pub(crate) fn open(path: &Path, depth: usize) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let identity = identity(&fstat(&fd)?);
        Ok(Self { fd, identity, depth })
    }

    /// Returns a directory by name; none if it is missing.
    pub(crate) fn find(&self, components: &[Vec<u8>]) -> io::Result<Option<Place>> {
        match self.resolve(components) {
            Ok(place) => Ok(Some(place)),
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
            Err(error) => Err(blamed(error, components)),
        }
    }

    /// Returns a directory by name. Missing ones are created as in container tools: world-accessible, and owned by root.
    pub(crate) fn find_or_make(&self, components: &[Vec<u8>]) -> io::Result<Place> {
        if let Some(place) = self.find(components)? {
            return Ok(place);
        }
        let mut place = self.resolve(&[])?;
        for end in 1..=components.len() {
            let (above, here) = (&components[..end], &components[end - 1]);
            place = match self.find(above)? {
                Some(place) => place,
                None => {
                    let made = self.make_directory(&place, here)?;
                    rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755))?;
                    self.resolve(above).map_err(|error| blamed(error, above))?
                }
            };
        }
        Ok(place)
    }

    /// Creates a directory that only root can enter, and opens it.
    pub(crate) fn make_directory(&self, place: &Place, name: &[u8]) -> io::Result<File> {
        if place.depth + 1 > self.depth {
            return Err(refused(format!("it is deeper than {} directories", self.depth)));
        }
        match mkdirat(&place.fd, name, Mode::RWXU) {
            Ok(()) => open_directory(&place.fd, name),
            // The name exists but does not resolve: a dangling link.
            Err(Errno::EXIST) => Err(refused(format!("{} above it is a dangling link", shown(name)))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the inodes of the directories from this one up to the root, this one first.
    pub(crate) fn above(&self, directory: BorrowedFd<'_>) -> io::Result<Vec<u64>> {
        let mut inodes = Vec::new();
        let mut at = directory.try_clone_to_owned()?;
        loop {
            let stat = fstat(&at)?;
            inodes.push(stat.st_ino);
            if identity(&stat) == self.identity {
                return Ok(inodes);
            }
            if inodes.len() > self.depth {
                return Err(refused(format!("it is deeper than {} directories", self.depth)));
            }
            at = openat(&at, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        }
    }

    /// Resolves a directory in the kernel, which alone interprets links inside the image: its root is the image's root, and
    /// neither a mount nor a magic link of /proc is crossed.
    fn resolve(&self, components: &[Vec<u8>]) -> io::Result<Place> {
        let path = joined(components);
        let straight = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let (fd, depth) = match self.ask(&path, straight) {
            Ok(fd) => (fd, components.len()),
            Err(Errno::LOOP) => {
                let fd = self.ask(&path, ResolveFlags::IN_ROOT)?;
                // Through links a short name can lead deep, and an entry that is too deep could not even be removed again.
                let depth = self.above(fd.as_fd())?.len() - 1;
                (fd, depth)
            }
            Err(error) => return Err(error.into()),
        };
        let inode = fstat(&fd)?.st_ino;
        Ok(Place { fd, inode, depth })
    }

    fn ask(&self, path: &[u8], how: ResolveFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = how | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let mut answer = Err(Errno::AGAIN);
        for _ in 0..TRIES {
            answer = openat2(&self.fd, path, flags, Mode::empty(), how);
            if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        answer
    }
}

/// Opens a directory directly in another, for reading, without following a link.
pub(crate) fn open_directory(parent: impl AsFd, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(parent, name, flags, Mode::empty())?))
}

/// Returns the names in a directory.
pub(crate) fn names_in(directory: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(open_directory(directory, b".")?)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    Ok(names)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Maps the kernel's error about a path in the image to an error of the image.
fn blamed(error: io::Error, components: &[Vec<u8>]) -> io::Error {
    let way = shown(&joined(components));
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOTDIR) => refused(format!("{way} above it is not a directory")),
        Some(Errno::LOOP) => refused(format!("{way} above it is a circular link")),
        Some(Errno::XDEV) => refused(format!("{way} above it leads out of the image")),
        Some(Errno::NAMETOOLONG) => refused(format!("{way} above it is too long a path")),
        _ => error,
    }
}
