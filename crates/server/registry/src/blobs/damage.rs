//! Finished files that do not match their digest: detected by length or content, and quarantined.
//!
//! A damaged file is moved to `quarantine/`, never removed: an operator can examine it, and no reader finds it again.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};

use bytes::Bytes;

use super::folder::{QUARANTINE, make, sync};
use super::name::FileName;
use super::writing::hash_again;
use super::{Blobs, StorageError, at, blocking};
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
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the file is missing"),
            Self::Length { expected, found } => write!(f, "it has {found} bytes instead of {expected}"),
            Self::Content => f.write_str("its content has another digest"),
        }
    }
}

/// Opens a file if it has this length.
fn open(path: &std::path::Path, size: u64) -> Result<Result<File, Damage>, StorageError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Err(Damage::Missing)),
        Err(error) => return Err(at("open", path)(error)),
    };
    let found = file.metadata().map_err(at("look at", path))?.len();
    Ok(if found == size { Ok(file) } else { Err(Damage::Length { expected: size, found }) })
}

impl Blobs {
    /// Verifies the length of a finished file without reading its content.
    pub async fn check_length(&self, file: &str, size: u64) -> Result<Option<Damage>, StorageError> {
        let name = FileName::parse(file)?;
        let store = self.0.clone();
        blocking(move || Ok(open(&name.path(&store), size)?.err())).await
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
            let open = match open(&path, size)? {
                Ok(open) => open,
                Err(damage) => return Ok(Some(damage)),
            };
            let found = hash_again(&open, size).map_err(at("read", &path))?;
            Ok((found.digest() != digest).then_some(Damage::Content))
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
            let open = match open(&path, size)? {
                Ok(open) => open,
                Err(damage) => return Ok(Err(damage)),
            };
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
            open.take(size).read_to_end(&mut bytes).map_err(at("read", &path))?;
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
