//! What is left behind: uploads that nobody went on with, and files that no row knows.
//!
//! Nothing is removed here. Only the caller knows which rows there are, and asks again before it removes anything.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use uuid::Uuid;

use super::name::{FileName, exact_uuid};
use super::{Blobs, Inner, StorageError, at, blocking};
use crate::Digest;

/// How many uploads one call names. Whoever removes them and asks again finds the rest.
const UPLOADS_AT_ONCE: usize = 10_000;

/// A finished file, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its name.
    pub name: String,
    /// The digest that it was finished under.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// When it was finished. A row follows within moments: only an old file that no row names is rubbish.
    pub modified: Timestamp,
}

impl Blobs {
    /// The uploads, owner and id, that nobody has written to for so long. One that cannot be cancelled because it is busy is in
    /// use, whatever its age: a client on a slow line has not yet sent enough to be written. Folders of owners without uploads go on the way.
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

    /// Finished files in the order of their names, at most so many, from the one after `after` on.
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
        // The system refuses to remove a folder that holds anything, so an upload that starts just now is safe.
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

/// What a directory holds under a UUID, and when it was last written to, in the order of the UUIDs.
fn uuids_in(directory: &Path) -> Result<Vec<(Uuid, SystemTime)>, StorageError> {
    let mut found = Vec::new();
    for name in names_in(directory)? {
        let Some(uuid) = exact_uuid(&name) else { continue };
        let path = directory.join(&name);
        match fs::symlink_metadata(&path).and_then(|facts| facts.modified()) {
            Ok(modified) => found.push((uuid, modified)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at("look at", &path)(error)),
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
                Err(error) => return Err(at("look at", &path)(error)),
            };
            let modified = facts.modified().map_err(at("look at", &path))?;
            let modified =
                Timestamp::try_from(modified).map_err(|error| at("date", &path)(io::Error::other(error)))?;
            found.push(FoundFile { name, digest: parsed.digest, size: facts.len(), modified });
        }
    }
    Ok(found)
}

/// The names in a directory, sorted; none if it is gone.
fn names_in(directory: &Path) -> Result<Vec<String>, StorageError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at("list", directory)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(at("list", directory))?;
        // What is no text is none of ours.
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
