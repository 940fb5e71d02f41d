//! Directories shared by cells on several nodes, on a file system that the operator mounts on all of those nodes.
//!
//! The platform has no network file system of its own: the operator provides one. This module makes it safe to hand out.
//! Each network of cells has a folder of its own, invisible to others. One range of ids, recorded beside the files, owns
//! them, so that every node shows the same owners, and no file of a tenant belongs to a user of a node. The file system also
//! has an identity, so that nodes with different ones are detected before a file is missing.
//!
//! Root on another node can put anything there at any moment. So the folder is opened once, through no link, and everything
//! else by its descriptor; nothing is followed, waited for or read without a bound.
//!
//! A share is removed, not overwritten: the blocks of a file on another machine are unknown to us.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::remove_tree::remove_tree_at;

/// Mark at the top of the file system: its identity, and the owner of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// Equal on all nodes with the same file system.
    id: String,
    /// The first of the ids that own the files of cells.
    first_id: u32,
}

const MARK: &str = ".muster.json";
/// A mark is never longer.
const MARK_BYTES: u64 = 4096;
/// An identity is never longer.
const ID_BYTES: usize = 64;
/// Name of a share during its removal, under which it is never mounted.
const GOING: &str = ".going-";
/// Names are listed up to this number, more than a platform has networks: another node can make any number of them.
const MOST_LISTED: usize = 10_000;

/// Why a shared file system cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SharedFilesError {
    /// The directory that the operator named is not usable.
    #[error("{0}")]
    Folder(String),
    /// The directory or its mark is not what it was. Every node that shares the file system can cause that.
    #[error("{0}; no node can use what is there")]
    Mark(String),
}

/// Why a share cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// Another node replaced it. A retry does not help before an operator removed that.
    #[error("{} is not used: another node put something else in the place of the directory", .0.display())]
    Replaced(PathBuf),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// A file system that nodes share.
#[derive(Debug, Clone)]
pub struct SharedFiles {
    /// For messages, and for mounts that follow no link in it.
    folder: PathBuf,
    root: Arc<OwnedFd>,
    mark: Mark,
}

impl SharedFiles {
    /// Opens it. The first node that comes marks it, with `id` and `first_id`; what stands there counts for all that come after.
    pub fn open(folder: &Path, id: &str, first_id: u32) -> Result<Self, SharedFilesError> {
        let failed = |error: io::Error| SharedFilesError::Folder(format!("{}: {error}", folder.display()));
        let root = match open_folder(folder) {
            Err(Errno::NOENT) => {
                let why = format!(
                    "{} is no directory: mount the file system that the nodes share",
                    folder.display()
                );
                return Err(SharedFilesError::Folder(why));
            }
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let why = format!(
                    "{} is no directory, or a link leads there, which every node can change: name it without links",
                    folder.display()
                );
                return Err(SharedFilesError::Mark(why));
            }
            root => root.map_err(|error| failed(error.into()))?,
        };
        close_to_others(&root).map_err(failed)?;
        let path = folder.join(MARK);
        if rustix::fs::statat(&root, MARK, AtFlags::SYMLINK_NOFOLLOW)
            .is_err_and(|error| error == Errno::NOENT)
        {
            mark(&root, &Mark { id: id.to_owned(), first_id }).map_err(failed)?;
        }
        let damaged = |why: String| SharedFilesError::Mark(format!("{} is damaged: {why}", path.display()));
        let text = read_mark(&root).map_err(|error| damaged(error.to_string()))?;
        let mark: Mark = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if !is_plain(&mark.id) || mark.id.len() > ID_BYTES || mark.first_id < 65_536 {
            return Err(damaged("its values are out of range".to_owned()));
        }
        Ok(Self { folder: folder.to_owned(), root: Arc::new(root), mark })
    }

    /// Returns its identity.
    pub fn id(&self) -> &str {
        &self.mark.id
    }

    /// The first of the ids that own the files of cells.
    pub fn first_id(&self) -> u32 {
        self.mark.first_id
    }

    /// Returns the folder of a share, created if missing. `name` is a platform id.
    pub fn share(&self, name: &str) -> Result<PathBuf, ShareError> {
        let path = self.path(name).map_err(ShareError::Failed)?;
        let failed = |error: io::Error| ShareError::Failed(format!("make {}: {error}", path.display()));
        close_to_others(&self.root).map_err(failed)?;
        match rustix::fs::mkdirat(&self.root, name, Mode::from_raw_mode(0o711)) {
            Err(error) if error != Errno::EXIST => return Err(failed(error.into())),
            _ => {}
        }
        // Cells get its content without following a link, whatever happens to it from here on.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(&self.root, name, flags, Mode::empty(), beneath) {
            Ok(_) => Ok(path),
            Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => Err(ShareError::Replaced(path)),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Removes a share with its content. Idempotent; what is not removed until `until` is left for the next attempt.
    pub fn remove(&self, name: &str, until: Instant) -> Result<(), String> {
        let (path, going) = (self.path(name)?, going(name));
        let said = |error: io::Error| format!("remove {}: {error}", path.display());
        let remove =
            |name: &str| remove_tree_at(self.root.as_fd(), Path::new(name), Some(until)).map_err(said);
        // Remains of an earlier attempt; a folder can only be renamed to a free name.
        remove(&going)?;
        match rustix::fs::renameat(&self.root, name, &self.root, &going) {
            Err(error) if error != Errno::NOENT => return Err(said(error.into())),
            _ => {}
        }
        remove(&going)?;
        rustix::fs::fsync(&self.root).map_err(|error| said(error.into()))
    }

    /// Returns the remains of a share, by inspection.
    pub fn left(&self, name: &str) -> Result<Vec<String>, String> {
        self.path(name)?;
        let is_there = |name: &String| {
            let found = rustix::fs::statat(&self.root, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            found.err() != Some(Errno::NOENT)
        };
        let all = [name.to_owned(), going(name)];
        Ok(all
            .into_iter()
            .filter(is_there)
            .map(|name| self.folder.join(name).display().to_string())
            .collect())
    }

    /// Returns the names of shares that `is_share`, including those being removed; of very many only some.
    pub fn list(&self, is_share: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
        let said = |error: Errno| format!("list {}: {error}", self.folder.display());
        let mut names = std::collections::BTreeSet::new();
        for entry in Dir::read_from(&self.root).map_err(said)? {
            let entry = entry.map_err(said)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let name = name.strip_prefix(GOING).unwrap_or(name);
            if is_plain(name) && is_share(name) {
                names.insert(name.to_owned());
            }
            if names.len() >= MOST_LISTED {
                tracing::warn!(folder = %self.folder.display(), listed = MOST_LISTED, "the shared file system has more entries than are listed");
                break;
            }
        }
        Ok(names.into_iter().collect())
    }

    fn path(&self, name: &str) -> Result<PathBuf, String> {
        if !is_plain(name) {
            return Err(format!("'{}' is not the name of a share", name.escape_debug()));
        }
        Ok(self.folder.join(name))
    }
}

fn going(name: &str) -> String {
    format!("{GOING}{name}")
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Opens the folder that the operator named, through no link: those on the shared file system belong to every node.
fn open_folder(folder: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, folder, flags, Mode::empty(), resolve)
}

/// Makes the folder root's alone. Its content belongs to tenants, not to users of the node.
fn close_to_others(root: &OwnedFd) -> io::Result<()> {
    let found = rustix::fs::fstat(root)?;
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if (found.st_uid, found.st_gid) != (user.as_raw(), group.as_raw()) {
        rustix::fs::fchown(root, Some(user), Some(group))?;
    }
    if found.st_mode & 0o7777 != 0o700 {
        rustix::fs::fchmod(root, Mode::RWXU)?;
    }
    Ok(())
}

/// Reads a mark that root on another node may have replaced: follows no link, waits for no writer, and reads no more than a mark has.
fn read_mark(root: &OwnedFd) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(root, MARK, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(io::Error::other("it is a link")),
        opened => File::from(opened?),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(MARK_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MARK_BYTES {
        return Err(io::Error::other(format!("it is longer than {MARK_BYTES} bytes")));
    }
    Ok(text)
}

/// Marks the file system, unless another node does so at the same moment: then its mark counts.
fn mark(root: &OwnedFd, mark: &Mark) -> io::Result<()> {
    let beside = format!(".new-{}", mark.id);
    let text = serde_json::to_string(mark).map_err(io::Error::other)?;
    // Remains of a killed node; a link put there by another node is removed, never followed.
    match rustix::fs::unlinkat(root, &beside, AtFlags::empty()) {
        Err(error) if error != Errno::NOENT => return Err(error.into()),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(root, &beside, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // Creating a hard link fails if the name exists, on every file system with links.
    let linked = match rustix::fs::linkat(root, &beside, root, MARK, AtFlags::empty()) {
        Err(Errno::EXIST) => Ok(()),
        linked => linked,
    };
    rustix::fs::unlinkat(root, &beside, AtFlags::empty())?;
    linked?;
    rustix::fs::fsync(root)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn the_first_mark_counts_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let first = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        let second = SharedFiles::open(folder.path(), "two", 2_000_000).unwrap();
        assert_eq!((second.id(), second.first_id()), (first.id(), 1_000_000));
        let other = tempfile::tempdir().unwrap();
        assert_ne!(SharedFiles::open(other.path(), "two", 2_000_000).unwrap().id(), first.id());
    }

    #[test]
    fn many_that_come_at_once_agree_on_one_mark() {
        let folder = tempfile::tempdir().unwrap();
        let ids: Vec<String> = std::thread::scope(|scope| {
            let opened = (0..16).map(|number| {
                let folder = folder.path();
                scope.spawn(move || {
                    let id = format!("node{number}");
                    SharedFiles::open(folder, &id, 100_000 + number).unwrap().id().to_owned()
                })
            });
            opened.collect::<Vec<_>>().into_iter().map(|opened| opened.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the mark is left");
    }

    #[test]
    fn a_damaged_mark_is_refused_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for text in [
            "",
            "{}",
            r#"{"id":"a","first_id":0}"#,
            r#"{"id":"","first_id":100000}"#,
            r#"{"id":"a\u0000b","first_id":100000}"#,
            r#"{"id":"../x","first_id":100000}"#,
        ] {
            fs::write(folder.path().join(MARK), text).unwrap();
            assert!(damage(folder.path()).contains("damaged"));
            assert_eq!(fs::read_to_string(folder.path().join(MARK)).unwrap(), text);
        }
        let none = SharedFiles::open(&folder.path().join("none"), "one", 1_000_000);
        assert!(matches!(none, Err(SharedFilesError::Folder(_))), "{none:?}");
    }

    /// Why the mark cannot be read.
    fn damage(folder: &Path) -> String {
        match SharedFiles::open(folder, "one", 1_000_000) {
            Err(SharedFilesError::Mark(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Attack: root on another node replaces the mark by something that would block or fill this agent.
    #[test]
    fn a_mark_that_is_a_link_a_fifo_or_too_long_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(MARK);
        let valid = folder.path().join("valid");
        fs::write(&valid, r#"{"id":"a","first_id":100000}"#).unwrap();
        for target in [Path::new("/dev/zero"), &valid, Path::new("/nowhere")] {
            symlink(target, &path).unwrap();
            assert!(damage(folder.path()).contains("it is a link"), "{}", target.display());
            fs::remove_file(&path).unwrap();
        }
        let fifo = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(fifo.success());
        assert!(damage(folder.path()).contains("not a regular file"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(damage(folder.path()).contains("not a regular file"));
        fs::remove_dir(&path).unwrap();
        let padded = |length: usize| format!("{:length$}", r#"{"id":"a","first_id":100000}"#);
        fs::write(&path, padded(4097)).unwrap();
        assert!(damage(folder.path()).contains("longer than 4096 bytes"));
        // Longer than any memory, and sparse.
        File::options().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
        assert!(damage(folder.path()).contains("longer than 4096 bytes"));
        fs::write(&path, padded(4096)).unwrap();
        assert_eq!(SharedFiles::open(folder.path(), "one", 1_000_000).unwrap().id(), "a");
    }

    #[test]
    fn a_link_in_the_place_of_a_share_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let files = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        symlink("/usr", folder.path().join("net_1")).unwrap();
        assert!(matches!(files.share("net_1"), Err(ShareError::Replaced(_))));
    }

    #[test]
    fn a_share_is_its_own_folder_and_goes_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        let share = files.share("net_1").unwrap();
        assert_eq!(files.share("net_1").unwrap(), share);
        files.share("net_2").unwrap();
        fs::create_dir(share.join("home")).unwrap();
        fs::write(share.join("home/file"), "text").unwrap();
        assert_eq!(files.list(|_| true).unwrap(), ["net_1", "net_2"]);
        assert_eq!(files.left("net_1").unwrap().len(), 1);
        files.remove("net_1", soon()).unwrap();
        files.remove("net_1", soon()).unwrap();
        assert_eq!(files.left("net_1").unwrap(), Vec::<String>::new());
        assert_eq!(files.list(|_| true).unwrap(), ["net_2"]);

        for name in ["", "..", "a/b", ".muster.json", "net-1"] {
            assert!(files.share(name).is_err() && files.remove(name, soon()).is_err(), "{name}");
        }
    }

    #[test]
    fn interrupted_removal_of_shared_files_is_found_and_finished() {
        let folder = tempfile::tempdir().unwrap();
        let files = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        // A crash after the rename, and a partitioned cell that created the folder again.
        for path in [folder.path().join(going("net_1")), files.share("net_1").unwrap()] {
            fs::create_dir_all(path.join("deep")).unwrap();
            fs::write(path.join("deep/file"), "text").unwrap();
        }
        assert_eq!(files.left("net_1").unwrap().len(), 2);
        assert_eq!(files.list(|_| true).unwrap(), ["net_1"]);
        files.remove("net_1", soon()).unwrap();
        assert_eq!(files.left("net_1").unwrap(), Vec::<String>::new());
    }

    /// Attack: root on another node replaces the folder itself, or a folder above it on the shared file system.
    #[test]
    fn a_folder_that_became_a_link_is_not_followed_and_what_it_leads_to_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (site, victim) = (folder.path().join("site"), folder.path().join("usr"));
        fs::create_dir_all(site.join("muster")).unwrap();
        fs::create_dir_all(victim.join("muster")).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o755)).unwrap();
        SharedFiles::open(&site.join("muster"), "one", 1_000_000).unwrap();
        fs::remove_dir_all(site.join("muster")).unwrap();
        symlink(&victim, site.join("muster")).unwrap();
        assert!(damage(&site.join("muster")).contains("without links"));
        fs::remove_dir_all(&site).unwrap();
        symlink(&victim, &site).unwrap();
        assert!(damage(&site.join("muster")).contains("without links"));
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
        assert_eq!(fs::read_dir(victim.join("muster")).unwrap().count(), 0);
    }

    #[test]
    fn the_folder_stays_the_platforms_whatever_owner_and_mode_another_node_gives_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        std::os::unix::fs::chown(folder.path(), Some(1000), Some(1000))
            .expect("run the tests of disks as root");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        files.share("net_1").unwrap();
        let found = fs::metadata(folder.path()).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0, 0, 0o700));
    }

    #[test]
    fn anything_in_the_place_of_a_share_is_refused_and_removed_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        let (share, kept) = (folder.path().join("net_1"), folder.path().join("net_2"));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "text").unwrap();
        let make = [
            |path: &Path| fs::write(path, "text").unwrap(),
            |path: &Path| symlink("net_2", path).unwrap(),
            |path: &Path| {
                let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
                assert!(made.success());
            },
        ];
        for put in make {
            put(&share);
            let why = files.share("net_1").unwrap_err().to_string();
            assert!(why.contains("another node put something else"), "{why}");
            put(&folder.path().join(going("net_1")));
            files.remove("net_1", soon()).unwrap();
            assert_eq!(files.left("net_1").unwrap(), Vec::<String>::new());
        }
        assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "text");
    }

    #[test]
    fn of_countless_names_that_another_node_made_some_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let files = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        for number in 0..MOST_LISTED + 50 {
            fs::write(folder.path().join(format!("net_{number}")), "").unwrap();
            fs::write(folder.path().join(format!("other-{number}")), "").unwrap();
        }
        assert_eq!(files.list(|name| name.starts_with("net_")).unwrap().len(), MOST_LISTED);
    }
}
