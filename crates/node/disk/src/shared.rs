//! Directories shared by cells on several nodes, on a file system that the operator mounts on all of those nodes.
//!
//! The platform has no network file system of its own: the operator provides one. This module makes it safe to hand out.
//! Each network of cells has a folder of its own, invisible to others. One range of ids, recorded beside the files, owns
//! them, so that every node shows the same owners, and no file of a tenant belongs to a user of a node. The file system also
//! has an identity, so that nodes with different ones are detected before a file is missing.
//!
//! A share is removed, not overwritten: the blocks of a file on another machine are unknown to us.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

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
/// What a share is called while it is being removed: nobody mounts it any more.
const GOING: &str = ".going-";

/// Why a shared file system cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SharedFilesError {
    /// The directory that the operator named is not usable.
    #[error("{0}")]
    Folder(String),
    /// Its mark cannot be read. Every node that shares the file system can cause that.
    #[error("{0}; no node can use what is there")]
    Mark(String),
}

/// A file system that nodes share.
#[derive(Debug, Clone)]
pub struct SharedFiles {
    folder: PathBuf,
    mark: Mark,
}

impl SharedFiles {
    /// Opens it. The first node that comes marks it, with `id` and `first_id`; what stands there counts for all that come after.
    pub fn open(folder: &Path, id: &str, first_id: u32) -> Result<Self, SharedFilesError> {
        let failed =
            |error: std::io::Error| SharedFilesError::Folder(format!("{}: {error}", folder.display()));
        if !folder.is_dir() {
            let why =
                format!("{} is no directory: mount the file system that the nodes share", folder.display());
            return Err(SharedFilesError::Folder(why));
        }
        // What is inside belongs to tenants, and to nobody who is a user of the node.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        let path = folder.join(MARK);
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            mark(folder, &Mark { id: id.to_owned(), first_id }).map_err(failed)?;
        }
        let damaged = |why: String| SharedFilesError::Mark(format!("{} is damaged: {why}", path.display()));
        let text = read_mark(&path).map_err(|error| damaged(error.to_string()))?;
        let mark: Mark = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if mark.id.is_empty() || mark.first_id < 65_536 {
            return Err(damaged("its values are out of range".to_owned()));
        }
        Ok(Self { folder: folder.to_owned(), mark })
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
    pub fn share(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.path(name)?;
        match DirBuilder::new().mode(0o711).create(&path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(format!("make {}: {error}", path.display()))
            }
            // Another node may have put anything there. Cells get its content without following a link.
            Err(_) if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) => {
                Err(format!("{} is no directory: another node put something else there", path.display()))
            }
            _ => Ok(path),
        }
    }

    /// Removes a share with its content. Idempotent.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let (path, going) = (self.path(name)?, self.going(name));
        let said = |error: std::io::Error| format!("remove {}: {error}", path.display());
        let gone = |done: std::io::Result<()>| match done {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        };
        // Remains of an earlier attempt; a folder can only be renamed to a free name.
        gone(fs::remove_dir_all(&going)).map_err(said)?;
        gone(fs::rename(&path, &going)).map_err(said)?;
        gone(fs::remove_dir_all(&going)).map_err(said)?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(said)
    }

    /// Returns the remains of a share, by inspection.
    pub fn left(&self, name: &str) -> Result<Vec<String>, String> {
        let there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let all = [self.path(name)?, self.going(name)];
        Ok(all.into_iter().filter(there).map(|path| path.display().to_string()).collect())
    }

    /// Returns the names of all shares, including those being removed.
    pub fn list(&self) -> Result<Vec<String>, String> {
        let entries =
            fs::read_dir(&self.folder).map_err(|error| format!("list {}: {error}", self.folder.display()))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .map(|name| name.strip_prefix(GOING).unwrap_or(&name).to_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn path(&self, name: &str) -> Result<PathBuf, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(format!("'{}' is no name of a share", name.escape_debug()));
        }
        Ok(self.folder.join(name))
    }

    fn going(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{GOING}{name}"))
    }
}

/// Reads a mark that root on another node may have replaced: follows no link, waits for no writer, and reads no more than a mark has.
fn read_mark(path: &Path) -> std::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return Err(std::io::Error::other("it is a link")),
        opened => File::from(opened?),
    };
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(MARK_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MARK_BYTES {
        return Err(std::io::Error::other(format!("it is longer than {MARK_BYTES} bytes")));
    }
    Ok(text)
}

/// Marks the file system, unless another node does so at the same moment: then its mark counts.
fn mark(folder: &Path, mark: &Mark) -> std::io::Result<()> {
    let beside = folder.join(format!(".new-{}", mark.id));
    let text = serde_json::to_string(mark).map_err(std::io::Error::other)?;
    // Remains of a killed node; a link put there by another node is removed, never followed.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    // Creating a hard link fails if the name exists, on every file system with links.
    let linked = match fs::hard_link(&beside, folder.join(MARK)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    };
    fs::remove_file(&beside)?;
    linked?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for text in ["", "{}", r#"{"id":"a","first_id":0}"#, r#"{"id":"","first_id":100000}"#] {
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
            std::os::unix::fs::symlink(target, &path).unwrap();
            assert!(damage(folder.path()).contains("it is a link"), "{}", target.display());
            fs::remove_file(&path).unwrap();
        }
        let fifo = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(fifo.success());
        assert!(damage(folder.path()).contains("no regular file"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(damage(folder.path()).contains("no regular file"));
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
        std::os::unix::fs::symlink("/usr", folder.path().join("net_1")).unwrap();
        assert!(files.share("net_1").unwrap_err().contains("no directory"));
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
        assert_eq!(files.list().unwrap(), ["net_1", "net_2"]);
        assert_eq!(files.left("net_1").unwrap().len(), 1);
        files.remove("net_1").unwrap();
        files.remove("net_1").unwrap();
        assert_eq!(files.left("net_1").unwrap(), Vec::<String>::new());
        assert_eq!(files.list().unwrap(), ["net_2"]);

        for name in ["", "..", "a/b", ".muster.json", "net-1"] {
            assert!(files.share(name).is_err() && files.remove(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_a_removal_left_half_done_is_found_and_finished() {
        let folder = tempfile::tempdir().unwrap();
        let files = SharedFiles::open(folder.path(), "one", 1_000_000).unwrap();
        // A crash after the rename, and a partitioned cell that created the folder again.
        for path in [files.going("net_1"), files.share("net_1").unwrap()] {
            fs::create_dir_all(path.join("deep")).unwrap();
            fs::write(path.join("deep/file"), "text").unwrap();
        }
        assert_eq!(files.left("net_1").unwrap().len(), 2);
        assert_eq!(files.list().unwrap(), ["net_1"]);
        files.remove("net_1").unwrap();
        assert_eq!(files.left("net_1").unwrap(), Vec::<String>::new());
    }
}
