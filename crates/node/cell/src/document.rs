//! Small documents that survive a crash: written to a temporary file, flushed, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{CellResult, Doing, refused};

/// Maximum size of a document; a longer one is not ours.
const LONGEST: u64 = 4 << 20;

/// Writes `value` to `path`, readable by root only.
pub(crate) fn write<T: Serialize>(path: &Path, value: &T) -> CellResult<()> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(std::io::Error::other)
        .doing(|| format!("write {}", path.display()))?;
    text.push(b'\n');
    let beside = path.with_extension("new");
    let attempt = || -> std::io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        match path.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    };
    attempt().doing(|| format!("write {}", path.display()))
}

/// Writes `value` to `path`, readable by root only, without flushing: for data that is useless after a crash.
pub(crate) fn note<T: Serialize>(path: &Path, value: &T) -> CellResult<()> {
    let attempt = || -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(value)?;
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(&text)
    };
    attempt().doing(|| format!("write {}", path.display()))
}

/// Reads a document written by [`write`]; none if it is missing.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> CellResult<Option<T>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).or_else(|error| {
        refused(format!(
            "{} is damaged ({error}); examine it, and remove it to have the cell cleaned up",
            path.display()
        ))
    })
}

/// Returns the text of a small file; none if it is missing.
pub(crate) fn read_text(path: &Path) -> CellResult<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).doing(|| format!("read {}", path.display())),
    };
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).doing(|| format!("read {}", path.display()))?;
    Ok(Some(text))
}

/// Creates a folder and its parents, and sets `mode` regardless of the umask.
pub(crate) fn folder(path: &Path, mode: u32) -> CellResult<()> {
    let attempt = || -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o711).create(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    attempt().doing(|| format!("create the folder {}", path.display()))
}

/// Removes a file. A missing one is ignored.
pub(crate) fn remove(path: &Path) -> CellResult<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).doing(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a folder with its content, which may be a tenant's, without following symbolic links. A missing one is ignored.
pub(crate) fn remove_folder(path: &Path) -> CellResult<()> {
    muster_disk::remove_tree(path, None).doing(|| format!("remove {}", path.display()))
}
