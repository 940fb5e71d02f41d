//! Errors of the storage and of uploads.

use std::io;

use crate::Digest;

/// An error of the storage.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The operating system returned an error.
    #[error("{doing}: {error}")]
    Storage {
        /// The attempted action.
        doing: String,
        /// The system's error.
        error: io::Error,
    },
    /// The folder's identity is unreadable, so it cannot be verified that servers share it.
    #[error(
        "{path} holds no UUID: restore it together with the folder's other files, or open an empty folder"
    )]
    Identity {
        /// Its path.
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
    #[error("invalid file name {0:?}: use the one returned when the file was finished")]
    Name(String),
    /// No such file.
    #[error("{0} is not in the storage: push its content again")]
    Missing(String),
    /// The file is shorter than the requested range.
    #[error("{file} has {length} bytes, but bytes up to {end} were requested: request its length first")]
    Short {
        /// The file.
        file: String,
        /// Its length.
        length: u64,
        /// The end of the requested range.
        end: u64,
    },
}

/// An error of an upload.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The upload does not exist: it was never started, or was finished, cancelled or swept.
    #[error("there is no such upload: start a new one")]
    Unknown,
    /// Another request is appending to it.
    #[error(
        "another request is writing to this upload: wait for it, then request the upload's length and continue from there"
    )]
    Busy,
    /// The bytes do not continue the upload.
    #[error("the upload has {length} bytes: continue from there")]
    Offset {
        /// The current length.
        length: u64,
    },
    /// The body ended early. The received bytes are kept.
    #[error("the body broke off ({why}): request the upload's length and continue from there")]
    Broken {
        /// The error of the body's source.
        why: String,
    },
    /// The blob exceeds the maximum size. Bytes received up to the limit are kept, further ones are rejected.
    #[error("a blob can have at most {most} bytes")]
    TooLarge {
        /// The maximum.
        most: u64,
    },
    /// The storage is full. The received bytes are kept.
    #[error("the storage is full: free some space, then request the upload's length and continue from there")]
    Full,
    /// The content does not match the declared digest. The upload is removed.
    #[error(
        "the content has the digest {found}: push it again under that digest, or find out what changed it in transit"
    )]
    Mismatch {
        /// The actual digest.
        found: Digest,
    },
    /// An error of the storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
}
