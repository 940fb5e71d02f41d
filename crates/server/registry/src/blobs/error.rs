//! What can go wrong: with the storage, or with one upload.

use std::io;

use crate::Digest;

/// Why the storage did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The system refused.
    #[error("{doing}: {error}")]
    Storage {
        /// What was tried.
        doing: String,
        /// What the system answered.
        error: io::Error,
    },
    /// The folder's identity cannot be read, so nobody can say whether servers share it.
    #[error(
        "{path} holds no UUID: restore it from where the folder's other files come from, or open an empty folder"
    )]
    Identity {
        /// Where it lies.
        path: String,
    },
    /// The folder is not the storage that was opened: a mount is missing, or another folder is in its place.
    #[error("{path} is not the registry's storage: mount the folder that holds storage.id {identity}")]
    Away {
        /// The folder.
        path: String,
        /// The mark of the storage that was opened.
        identity: uuid::Uuid,
    },
    /// Not the name of a finished file. No file was looked for.
    #[error("{0:?} is no name of a finished file: take it from where the file was finished")]
    Name(String),
    /// No such file.
    #[error("{0} is not in the storage: push its content again")]
    Missing(String),
    /// The file has fewer bytes than were asked for.
    #[error("{file} has {length} bytes, and bytes up to {end} were asked for: ask for its length first")]
    Short {
        /// The file.
        file: String,
        /// Its length.
        length: u64,
        /// Where the wanted part ends.
        end: u64,
    },
}

/// Why an upload did not go on.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// There is no such upload: it never was, or it is finished, cancelled or swept.
    #[error("there is no such upload: start a new one")]
    Unknown,
    /// Somebody is appending to it at this moment.
    #[error(
        "another request is writing to this upload: wait for it, then ask for the upload's length and go on from there"
    )]
    Busy,
    /// The bytes do not follow those that are there.
    #[error("the upload has {length} bytes: go on from there")]
    Offset {
        /// How many are there.
        length: u64,
    },
    /// The body broke off. What arrived is kept.
    #[error("the body broke off ({why}): ask for the upload's length and go on from there")]
    Broken {
        /// What the body's source says.
        why: String,
    },
    /// More than the most that one blob may have. What arrived until then is kept, but no more is taken.
    #[error("a blob may have {most} bytes and no more")]
    TooLarge {
        /// The most.
        most: u64,
    },
    /// The storage is full. What arrived is kept.
    #[error("the storage is full: free some space, then ask for the upload's length and go on from there")]
    Full,
    /// The content has another digest than was said. The upload is gone.
    #[error(
        "the content has the digest {found}: push it again under that digest, or look what changed it on its way"
    )]
    Mismatch {
        /// The digest that it has.
        found: Digest,
    },
    /// The storage did not do it.
    #[error(transparent)]
    Storage(#[from] StorageError),
}
