//! Directories that outlive a cell, opened without following any link.
//!
//! Every node writes to a shared file system. Root on one of them can replace a share by a link; a path that followed the
//! link would make this node change the owner of its own directories and mount them writable. So only the folder named by
//! the operator is opened by path. Everything below is opened name by name from there, beneath it, on the same file system
//! and through no link. Changes and mounts apply to that very directory, by its descriptor.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use crate::error::{CellResult, Doing, refused};
use crate::range::SIZE;

/// Location of a directory that outlives the cell.
pub(crate) struct Lasting {
    /// An existing folder of this node.
    pub(crate) trusted: PathBuf,
    /// Whether other nodes write to that folder too, and perhaps to those above it.
    pub(crate) is_shared: bool,
    /// Path components from there to the directory; missing ones are created.
    pub(crate) names: Vec<String>,
}

impl Lasting {
    /// Opens the directory, created if missing, owned by an id of the range from `at_rest`.
    pub(crate) fn open(&self, at_rest: u32) -> CellResult<OwnedFd> {
        let doing = || format!("open {} without following a link", self.path().display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let links = if self.is_shared { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::empty() };
        let opened = rustix::fs::openat2(CWD, &self.trusted, flags, Mode::empty(), links);
        let mut folder = self.ensure_not_replaced(opened, &self.trusted)?.doing(doing)?;
        let mut is_new = false;
        for (number, name) in self.names.iter().enumerate() {
            // Parent folders can be traversed, but not read.
            let is_last = number + 1 == self.names.len();
            let mode = Mode::from_raw_mode(if is_last { 0o755 } else { 0o711 });
            is_new = match rustix::fs::mkdirat(&folder, name.as_str(), mode) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error).doing(doing),
            };
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            let opened = rustix::fs::openat2(&folder, name.as_str(), flags, Mode::empty(), beneath);
            folder = self.ensure_not_replaced(opened, Path::new(name))?.doing(doing)?;
            if is_new {
                // Regardless of the umask. An existing directory may have been changed by the cell.
                rustix::fs::fchmod(&folder, mode).doing(doing)?;
            }
        }
        // The cell may have given it to another of its users. An owner outside the range means a new directory, or a crash
        // in between.
        let owner = rustix::fs::fstat(folder.as_fd()).doing(doing)?.st_uid;
        if is_new || !(at_rest..at_rest.saturating_add(SIZE)).contains(&owner) {
            let (user, group) = (Uid::from_raw(at_rest), Gid::from_raw(at_rest));
            rustix::fs::fchown(&folder, Some(user), Some(group)).doing(doing)?;
        }
        Ok(folder)
    }

    /// Gives the reason why a name on the shared file system is not opened, if another node replaced it.
    fn ensure_not_replaced(
        &self,
        opened: rustix::io::Result<OwnedFd>,
        name: &Path,
    ) -> CellResult<rustix::io::Result<OwnedFd>> {
        match opened {
            Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV | Errno::NOENT) if self.is_shared => {
                refused(format!(
                    "{} is not used: another node put something else in the place of the directory {}",
                    self.path().display(),
                    name.display()
                ))
            }
            opened => Ok(opened),
        }
    }

    /// Returns the path, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.names.iter().fold(self.trusted.clone(), |path, name| path.join(name))
    }

    /// Returns the last component of a path, below its parent folder.
    pub(crate) fn below_parent(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Self {
            trusted: path.parent().unwrap_or(Path::new("/")).to_owned(),
            is_shared: false,
            names: name.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    /// Attack: root on another node replaces a share, and a directory in one, by links to directories of this node.
    #[test]
    fn a_link_in_the_place_of_a_share_is_refused_and_what_it_leads_to_keeps_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, victim) = (folder.path().join("shared"), folder.path().join("usr"));
        fs::create_dir(&shared).unwrap();
        fs::create_dir_all(victim.join("home")).unwrap();
        let before = fs::metadata(&victim).unwrap().uid();
        let lasting = |names: &[&str]| Lasting {
            trusted: shared.clone(),
            is_shared: true,
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        symlink(&victim, shared.join("net_a")).unwrap();
        fs::create_dir(shared.join("net_b")).unwrap();
        symlink(&victim, shared.join("net_b/home")).unwrap();
        fs::create_dir(shared.join("net_c")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(shared.join("net_c/home")).status().unwrap();
        assert!(made.success());
        for names in [&["net_a", "home"], &["net_b", "home"], &["net_c", "home"]] {
            let why = lasting(names).open(1_000_000).unwrap_err().to_string();
            assert!(why.contains("another node put something else"), "{names:?}: {why}");
        }
        symlink(&victim, folder.path().join("moved")).unwrap();
        let moved = Lasting { trusted: folder.path().join("moved"), ..lasting(&["home"]) };
        assert!(moved.open(1_000_000).is_err(), "nor is the folder itself a link");
        for path in [&victim, &victim.join("home")] {
            assert_eq!(fs::metadata(path).unwrap().uid(), before, "{}", path.display());
        }
    }

    #[test]
    fn a_directory_is_made_once_with_the_ids_that_own_it_and_keeps_what_the_cell_changed() {
        let folder = tempfile::tempdir().unwrap();
        let lasting = Lasting {
            names: vec!["net_a".into(), "home".into()],
            ..Lasting::below_parent(&folder.path().join("x"))
        };
        lasting.open(1_000_000).expect("run the tests of cells as root");
        let path = lasting.path();
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (1_000_000, 1_000_000, 0o755));
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o7777, 0o711);
        std::os::unix::fs::chown(&path, Some(1_000_007), Some(1_000_007)).unwrap();
        lasting.open(1_000_000).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().uid(), 1_000_007, "one of the cell's users owns it");
    }
}
