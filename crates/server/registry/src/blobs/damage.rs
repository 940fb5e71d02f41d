//! Finished files that do not match their digest: detected by length or content, and quarantined.
//!
//! A damaged file is moved to `quarantine/`, never removed: an operator can examine it, and no reader finds it again.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::folder::{BLOBS, QUARANTINE, make, open_below, open_ours, sync};
use super::name::FileName;
use super::writing::hash_again;
use super::{Blobs, Inner, StorageError, at, blocking};
use crate::Digest;

/// The damage of a finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The file does not exist.
    Missing,
    /// Its length differs from the recorded one.
    Length {
        /// The recorded length.
        expected: u64,
        /// The length of the file.
        found: u64,
    },
    /// Its content has another digest.
    Content,
    /// The disk or the file system cannot read it.
    Unreadable,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the file is missing"),
            Self::Length { expected, found } => write!(f, "it has {found} bytes instead of {expected}"),
            Self::Content => f.write_str("its content has another digest"),
            Self::Unreadable => f.write_str("the disk cannot read it"),
        }
    }
}

/// Opens a file that has this length.
fn open(store: &Inner, name: &FileName, size: u64) -> Result<Result<File, Damage>, StorageError> {
    let path = name.path(store);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => match open_in_ours(store, name)? {
            Some(file) => file,
            None => return Ok(Err(Damage::Missing)),
        },
        Err(error) => return unreadable(store, &path, error).map(Err),
    };
    let found = match file.metadata() {
        Ok(facts) => facts.len(),
        Err(error) => return unreadable(store, &path, error).map(Err),
    };
    Ok(if found == size { Ok(file) } else { Err(Damage::Length { expected: size, found }) })
}

/// Tells a file that the disk cannot read from a storage that does not answer. EUCLEAN and EBADMSG are what file systems answer
/// whose structures or checksums are broken, EISDIR is a file that came back from a repair as a directory.
fn unreadable(store: &Inner, path: &Path, error: io::Error) -> Result<Damage, StorageError> {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    if !matches!(errno, Some(Errno::IO | Errno::UCLEAN | Errno::BADMSG | Errno::ISDIR)) {
        return Err(at("read", path)(error));
    }
    // Where the marks cannot be read either, it is not this file alone.
    store.ensure_ours()?;
    tracing::error!(path = %path.display(), %error, "the disk cannot read a file of the registry");
    Ok(Damage::Unreadable)
}

/// Opens a file below the verified folder. Only a file that does not exist there is missing: a folder that is away, or lacks one
/// of the directories made when it was opened, says nothing about its files.
fn open_in_ours(store: &Inner, name: &FileName) -> Result<Option<File>, StorageError> {
    let path = name.path(store);
    let folder = open_ours(store)?;
    let shard = open_below(&folder, &format!("{BLOBS}/{}", name.shard()), OFlags::DIRECTORY);
    let shard = shard.and_then(|shard| shard.ok_or_else(|| io::ErrorKind::NotFound.into()));
    let shard = shard.map_err(at("open the directory of", &path))?;
    open_below(&shard, &name.to_string(), OFlags::RDONLY).map_err(at("open", &path))
}

impl Blobs {
    /// Verifies the length of a finished file without reading its content.
    pub async fn check_length(&self, file: &str, size: u64) -> Result<Option<Damage>, StorageError> {
        let name = FileName::parse(file)?;
        let store = self.0.clone();
        blocking(move || Ok(open(&store, &name, size)?.err())).await
    }

    /// Verifies length and digest of a finished file by reading all of it.
    pub async fn check_content(
        &self,
        file: &str,
        digest: &Digest,
        size: u64,
    ) -> Result<Option<Damage>, StorageError> {
        let name = FileName::parse(file)?;
        let (store, digest) = (self.0.clone(), *digest);
        blocking(move || {
            let path = name.path(&store);
            let open = match open(&store, &name, size)? {
                Ok(open) => open,
                Err(damage) => return Ok(Some(damage)),
            };
            match hash_again(&open, size) {
                Ok(found) => Ok((found.digest() != digest).then_some(Damage::Content)),
                Err(error) => unreadable(&store, &path, error).map(Some),
            }
        })
        .await
    }

    /// Reads a whole finished file into memory if its length and digest are correct. For short files only.
    pub async fn read_verified(
        &self,
        file: &str,
        digest: &Digest,
        size: u64,
    ) -> Result<Result<Bytes, Damage>, StorageError> {
        let name = FileName::parse(file)?;
        let (store, digest) = (self.0.clone(), *digest);
        blocking(move || {
            let path = name.path(&store);
            let open = match open(&store, &name, size)? {
                Ok(open) => open,
                Err(damage) => return Ok(Err(damage)),
            };
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
            if let Err(error) = open.take(size).read_to_end(&mut bytes) {
                return unreadable(&store, &path, error).map(Err);
            }
            Ok(if Digest::of(&bytes) == digest { Ok(bytes.into()) } else { Err(Damage::Content) })
        })
        .await
    }

    /// Moves a finished file to the quarantine; returns `false` if it does not exist.
    pub async fn quarantine(&self, file: &str) -> Result<bool, StorageError> {
        let name = FileName::parse(file)?;
        let store = self.0.clone();
        blocking(move || {
            let path = name.path(&store);
            let folder = store.folder.join(QUARANTINE);
            make(&folder)?;
            match fs::rename(&path, folder.join(name.to_string())) {
                Ok(()) => sync(&folder).map(|()| true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(at("put aside", &path)(error)),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;

    use super::*;

    #[tokio::test]
    async fn only_an_error_of_the_disk_is_damage_and_only_in_our_folder() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path(), Env::for_tests(1)).await.unwrap();
        let judged = |errno: Errno| unreadable(&blobs.0, folder.path(), errno.into());
        for errno in [Errno::IO, Errno::UCLEAN, Errno::BADMSG, Errno::ISDIR] {
            assert_eq!(judged(errno).unwrap(), Damage::Unreadable);
        }
        for errno in [Errno::ACCESS, Errno::MFILE, Errno::NOMEM, Errno::STALE, Errno::TIMEDOUT] {
            assert!(matches!(judged(errno), Err(StorageError::Storage { .. })), "{errno}");
        }
        fs::remove_file(folder.path().join("storage.id")).unwrap();
        assert!(matches!(judged(Errno::IO), Err(StorageError::Away { .. })));
    }
}
