//! Leftovers: abandoned uploads, and files that no row names.
//!
//! Nothing is removed here. Only the caller knows the rows, and it verifies them again before it removes anything.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use uuid::Uuid;

use super::name::{FileName, exact_uuid};
use super::{Blobs, Inner, StorageError, at, blocking};
use crate::Digest;

/// Maximum number of uploads per call. A caller that removes them and calls again gets the rest.
const UPLOADS_AT_ONCE: usize = 10_000;

/// A finished file found on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its name.
    pub name: String,
    /// The digest in its name.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Time when it was finished. Its row follows within moments, so only an old file without a row is garbage.
    pub modified: Timestamp,
}

impl Blobs {
    /// Returns the uploads (owner and id) without a write for this long. An upload that cannot be cancelled because it is
    /// busy is in use, whatever its age: a slow client may not have sent enough to be written. Removes empty owner folders
    /// on the way.
    pub async fn uploads_older_than(
        &self,
        age: Duration,
        now: Timestamp,
    ) -> Result<Vec<(Uuid, Uuid)>, StorageError> {
        let store = self.0.clone();
        blocking(move || {
            let before = SystemTime::from(now).checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
            let old = old_uploads(&store, before)?;
            store.ensure_ours().map(|()| old)
        })
        .await
    }

    /// Returns up to `limit` finished files after `after`, sorted by name.
    pub async fn files(&self, after: Option<&str>, limit: usize) -> Result<Vec<FoundFile>, StorageError> {
        let after = after.map(FileName::parse).transpose()?;
        let store = self.0.clone();
        blocking(move || {
            let found = finished_files(&store, after, limit)?;
            // Verified afterwards: no name from another folder reaches a caller that removes what no row names.
            store.ensure_ours().map(|()| found)
        })
        .await
    }
}

fn old_uploads(store: &Inner, before: SystemTime) -> Result<Vec<(Uuid, Uuid)>, StorageError> {
    let mut old = Vec::new();
    for (owner, _) in uuids_in(&store.uploads())? {
        let folder = store.uploads().join(owner.to_string());
        let uploads = uuids_in(&folder)?;
        // The system refuses to remove a folder that is not empty, so a concurrently started upload is safe.
        if uploads.is_empty() && fs::remove_dir(&folder).is_ok() {
            continue;
        }
        old.extend(
            uploads
                .into_iter()
                .filter(|(_, modified)| *modified < before)
                .map(|(upload, _)| (owner, upload))
                .take(UPLOADS_AT_ONCE - old.len()),
        );
        if old.len() == UPLOADS_AT_ONCE {
            break;
        }
    }
    Ok(old)
}

/// Returns the UUID-named entries of a directory with their modification times, sorted by UUID.
fn uuids_in(directory: &Path) -> Result<Vec<(Uuid, SystemTime)>, StorageError> {
    let mut found = Vec::new();
    for name in names_in(directory)? {
        let Some(uuid) = exact_uuid(&name) else { continue };
        let path = directory.join(&name);
        match fs::symlink_metadata(&path).and_then(|facts| facts.modified()) {
            Ok(modified) => found.push((uuid, modified)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at("inspect", &path)(error)),
        }
    }
    Ok(found)
}

fn finished_files(
    store: &Inner,
    after: Option<FileName>,
    limit: usize,
) -> Result<Vec<FoundFile>, StorageError> {
    let (first, after) = match after {
        Some(name) => (name.digest.bytes()[0], name.to_string()),
        None => (0, String::new()),
    };
    let mut found = Vec::new();
    for shard in first..=u8::MAX {
        let directory = store.blobs().join(format!("{shard:02x}"));
        for name in names_in(&directory)? {
            if found.len() == limit {
                return Ok(found);
            }
            let Ok(parsed) = FileName::parse(&name) else { continue };
            if name <= after {
                continue;
            }
            let path = directory.join(&name);
            let facts = match fs::symlink_metadata(&path) {
                Ok(facts) => facts,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(at("inspect", &path)(error)),
            };
            let modified = facts.modified().map_err(at("inspect", &path))?;
            let modified =
                Timestamp::try_from(modified).map_err(|error| at("date", &path)(io::Error::other(error)))?;
            found.push(FoundFile { name, digest: parsed.digest, size: facts.len(), modified });
        }
    }
    Ok(found)
}

/// Returns the names in a directory, sorted; none if it does not exist.
fn names_in(directory: &Path) -> Result<Vec<String>, StorageError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at("list", directory)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at("list", directory))?;
        // Names that are not valid UTF-8 were not written by this crate.
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
