//! Removes directories whose content is a tenant's, or another node's.
//!
//! Nothing in such a tree is trusted: it may be nested deeper than a process has descriptors or stack, be full of links, or be
//! changed meanwhile. `std::fs::remove_dir_all` recurses, with one descriptor for each level, and so a tenant could end the
//! agent with nothing but `mkdir`. Here a nested directory is moved up to the top before it is emptied, which needs three
//! descriptors at any depth.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Removes a directory with its content, or the file or link of that name. Follows no link and enters no other mount. A missing
/// one is ignored. Fails at `until`, with less left than before.
pub fn remove_tree(path: &Path, until: Option<Instant>) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::other(format!("{} has no name", path.display())));
    };
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, above, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(()),
        above => remove_tree_at(above?.as_fd(), Path::new(name), until),
    }
}

/// Like [`remove_tree`], for a name in an open directory.
pub(crate) fn remove_tree_at(above: BorrowedFd<'_>, name: &Path, until: Option<Instant>) -> io::Result<()> {
    let mut removal = Removal { until, removed: 0, moved: 0 };
    let Some(top) = removal.unlink_or_open(above, name)? else { return Ok(()) };
    loop {
        let before = (removal.removed, removal.moved);
        removal.empty(&top)?;
        match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // Directories were moved to the top, or a process writes to it.
            Err(Errno::NOTEMPTY | Errno::EXIST) if before != (removal.removed, removal.moved) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

struct Removal {
    until: Option<Instant>,
    removed: u64,
    moved: u64,
}

impl Removal {
    /// Removes the entries of `top`; nested directories are moved up into it.
    fn empty(&mut self, top: &OwnedFd) -> io::Result<()> {
        for entry in Dir::read_from(top)? {
            let entry = entry?;
            let Some(name) = real_name(&entry) else { continue };
            let Some(child) = self.unlink_or_open(top.as_fd(), name)? else { continue };
            for entry in Dir::read_from(&child)? {
                let entry = entry?;
                let Some(nested) = real_name(&entry) else { continue };
                if self.unlink_or_open(child.as_fd(), nested)?.is_some() {
                    self.move_up(&child, nested, top)?;
                }
            }
            match rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR) {
                Ok(()) => self.removed += 1,
                // It stays for the next round.
                Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Removes a file, a link or an empty directory; opens any other directory.
    fn unlink_or_open(&mut self, above: BorrowedFd<'_>, name: &Path) -> io::Result<Option<OwnedFd>> {
        self.ensure_in_time()?;
        let mut unlinked = rustix::fs::unlinkat(above, name, AtFlags::empty());
        if matches!(unlinked, Err(Errno::ISDIR | Errno::PERM)) {
            unlinked = match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
                // An entry that is no directory cannot be removed: return the first attempt's error.
                Err(Errno::NOTDIR) => unlinked,
                removed => removed,
            };
        }
        match unlinked {
            Ok(()) => {
                self.removed += 1;
                Ok(None)
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
                match rustix::fs::openat2(above, name, flags, Mode::empty(), beneath) {
                    Err(Errno::NOENT) => Ok(None),
                    opened => Ok(Some(opened?)),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a directory into `top`, under a name that is free there.
    fn move_up(&mut self, from: &OwnedFd, name: &Path, top: &OwnedFd) -> io::Result<()> {
        loop {
            self.ensure_in_time()?;
            self.moved += 1;
            let free = format!(".moved-{}", self.moved);
            match rustix::fs::renameat(from, name, top, &free) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // A tenant has something of that name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn ensure_in_time(&self) -> io::Result<()> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            let why = format!("not done in time, after {} entries were removed", self.removed);
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Ok(())
    }
}

/// Returns the name of an entry other than the directory itself and its parent.
fn real_name(entry: &rustix::fs::DirEntry) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt as _;
    let name = entry.file_name().to_bytes();
    (!matches!(name, b"." | b"..")).then(|| Path::new(std::ffi::OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    /// Nests directories in `top`, deeper than any path can name.
    fn nest(top: &Path, depth: usize) {
        let open = |above: BorrowedFd<'_>, name: &str| {
            rustix::fs::openat(above, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
        };
        let mut folder = open(CWD, top.to_str().unwrap());
        for _ in 0..depth {
            rustix::fs::mkdirat(&folder, "d", Mode::RWXU).unwrap();
            folder = open(folder.as_fd(), "d");
        }
    }

    /// Attack: `mkdir` in a loop. With a descriptor or a frame of the stack for each level, the agent fails or ends.
    #[test]
    fn a_tree_of_any_depth_goes_with_a_few_descriptors_and_little_stack() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir(&top).unwrap();
        nest(&top, 5_000);
        let removed = std::thread::Builder::new().stack_size(128 << 10).spawn({
            let top = top.clone();
            move || remove_tree(&top, None)
        });
        removed.unwrap().join().unwrap().unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn all_of_a_wide_tree_goes_and_nothing_that_its_links_lead_to() {
        let folder = tempfile::tempdir().unwrap();
        let (top, other) = (folder.path().join("top"), folder.path().join("other"));
        fs::create_dir_all(other.join("kept")).unwrap();
        fs::write(other.join("kept/file"), "text").unwrap();
        for one in 0..7 {
            for two in 0..7 {
                let deep = top.join(format!("{one}/{two}/x"));
                fs::create_dir_all(&deep).unwrap();
                fs::write(deep.join("file"), "text").unwrap();
                symlink(&other, deep.join("link")).unwrap();
            }
        }
        // Names that the removal itself uses.
        fs::create_dir_all(top.join(".moved-1/.moved-2/.moved-1")).unwrap();
        fs::write(top.join(".moved-2"), "text").unwrap();
        symlink(&other, top.join(".moved-3")).unwrap();
        fs::hard_link(other.join("kept/file"), top.join("hard")).unwrap();
        let status = std::process::Command::new("mkfifo").arg(top.join("fifo")).status().unwrap();
        assert!(status.success());
        remove_tree(&top, None).unwrap();
        assert!(!top.exists());
        assert_eq!(fs::read_to_string(other.join("kept/file")).unwrap(), "text");
    }

    #[test]
    fn a_link_or_a_file_of_that_name_is_removed_itself_and_a_missing_one_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "text").unwrap();
        let path = folder.path().join("gone");
        symlink(&kept, &path).unwrap();
        remove_tree(&path, None).unwrap();
        fs::write(&path, "text").unwrap();
        remove_tree(&path, None).unwrap();
        remove_tree(&path, None).unwrap();
        remove_tree(&path.join("deeper"), None).unwrap();
        assert!(fs::symlink_metadata(&path).is_err() && kept.join("file").exists());
    }

    /// Another node may fill the tree faster than it is removed.
    #[test]
    fn a_removal_ends_with_its_time_and_the_next_one_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        let error = remove_tree(&top, Some(Instant::now())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(top.join("a/b/c").exists());
        remove_tree(&top, Some(Instant::now() + Duration::from_secs(60))).unwrap();
        assert!(!top.exists());
    }
}
