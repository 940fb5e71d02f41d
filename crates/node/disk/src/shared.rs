//! Directories shared by cells on several nodes, on a file system that the operator mounts on all of those nodes.
//!
//! The platform has no network file system of its own: the operator provides one. This module makes it safe to hand out.
//! Each network of cells has a folder of its own, invisible to others. One range of ids, recorded beside the files, owns
//! them, so that every node shows the same owners, and no file of a tenant belongs to a user of a node. The file system also
//! has an identity, so that nodes with different ones are detected before a file is missing.
//!
//! A share is removed, not overwritten: the blocks of a file on another machine are unknown to us.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

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
/// Prefix of a share that is being removed and no longer mounted.
const GOING: &str = ".going-";

/// A file system shared by nodes.
#[derive(Debug, Clone)]
pub struct SharedFiles {
    folder: PathBuf,
    mark: Mark,
}

impl SharedFiles {
    /// Opens it. The first node marks it with `id` and `first_id`; later nodes use the existing mark.
    pub fn open(folder: &Path, id: &str, first_id: u32) -> Result<Self, String> {
        let said = |error: std::io::Error| format!("{}: {error}", folder.display());
        if !folder.is_dir() {
            return Err(format!(
                "{} is no directory: mount the file system that the nodes share",
                folder.display()
            ));
        }
        // Its content belongs to tenants, and to no user of the node.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(said)?;
        let path = folder.join(MARK);
        if !path.exists() {
            mark(folder, &Mark { id: id.to_owned(), first_id }).map_err(said)?;
        }
        let text = fs::read_to_string(&path).map_err(said)?;
        let mark: Mark = serde_json::from_str(&text).map_err(|error| {
            format!("{} is damaged ({error}); no node can use what is there", path.display())
        })?;
        if mark.id.is_empty() || mark.first_id < 65_536 {
            return Err(format!("{} is damaged; no node can use what is there", path.display()));
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
            assert!(SharedFiles::open(folder.path(), "one", 1_000_000).unwrap_err().contains("damaged"));
            assert_eq!(fs::read_to_string(folder.path().join(MARK)).unwrap(), text);
        }
        assert!(SharedFiles::open(&folder.path().join("none"), "one", 1_000_000).is_err());
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
