//! A folder beside the root that nothing may ever touch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns all metadata of a folder's content: kind, mode, owner, names, inode, times, content.
pub(crate) fn snapshot(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let facts = path.symlink_metadata().unwrap();
        let content = if facts.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else if facts.is_symlink() {
            fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
        } else {
            fs::read(&path).unwrap()
        };
        let line = format!(
            "{:o} {} {} {} {} {}.{} {}.{} {}",
            facts.mode(),
            facts.uid(),
            facts.gid(),
            facts.nlink(),
            facts.ino(),
            facts.mtime(),
            facts.mtime_nsec(),
            facts.ctime(),
            facts.ctime_nsec(),
            content.escape_ascii()
        );
        seen.insert(path, line);
    }
    seen
}

/// Creates the folder, with typical targets of attacks.
pub(crate) fn plant(folder: &Path) {
    fs::create_dir_all(folder.join("etc")).unwrap();
    fs::write(folder.join("file"), "untouched").unwrap();
    fs::write(folder.join("etc/passwd"), "untouched").unwrap();
    fs::write(folder.join("etc/shadow"), "untouched").unwrap();
    fs::create_dir(folder.join("empty")).unwrap();
}

/// Returns a folder in memory if possible: flushes at every image would wait for other users of the disk.
pub(crate) fn quick_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
