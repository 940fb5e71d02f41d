//! A store in a folder of its own, and bodies to send to it.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use muster_ids::Env;
use muster_registry::{Blobs, Digest, Finished};
use tempfile::TempDir;
use uuid::Uuid;

/// More than the length of any content here.
pub(crate) const MOST: u64 = 1 << 40;

pub(crate) struct Shelf {
    pub(crate) blobs: Blobs,
    pub(crate) env: Env,
    pub(crate) folder: TempDir,
}

impl Shelf {
    pub(crate) async fn new() -> Self {
        let (folder, env) = (tempfile::tempdir().unwrap(), Env::for_tests(7));
        let blobs = Blobs::open(folder.path().join("blobs"), env.clone()).await.unwrap();
        Self { blobs, env, folder }
    }

    /// Opens the same folder as another server, without the first one's cached state.
    pub(crate) async fn another_server(&self) -> Blobs {
        Blobs::open(self.root(), Env::for_tests(8)).await.unwrap()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("blobs")
    }

    /// Starts a new upload.
    pub(crate) async fn start(&self) -> (Uuid, Uuid) {
        let (owner, upload) = (self.env.uuid(), self.env.uuid());
        self.blobs.upload_start(owner, upload).await.unwrap();
        (owner, upload)
    }

    /// Returns every file in the uploads and in the blobs.
    pub(crate) fn files(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        (files_in(&self.root().join("uploads")), files_in(&self.root().join("blobs")))
    }

    pub(crate) async fn content(&self, finished: &Finished) -> Vec<u8> {
        let reading = self.blobs.read(&finished.file, 0..finished.size).await.unwrap();
        gather(reading).await
    }
}

pub(crate) async fn gather(reading: impl Stream<Item = std::io::Result<Bytes>>) -> Vec<u8> {
    let parts: Vec<_> = reading.map(|part| part.unwrap()).collect().await;
    parts.concat()
}

/// Returns all files below a folder, sorted.
pub(crate) fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_in(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

pub(crate) type Body = stream::Iter<std::vec::IntoIter<Result<Bytes, Infallible>>>;

/// Returns a body in these parts.
pub(crate) fn parts<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> Body {
    let parts: Vec<_> = parts.into_iter().map(|part| Ok(Bytes::copy_from_slice(part.as_ref()))).collect();
    stream::iter(parts)
}

/// Returns a body of one part.
pub(crate) fn body(bytes: &[u8]) -> Body {
    parts([bytes])
}

/// Returns a body that breaks off after these bytes.
pub(crate) fn broken(bytes: &[u8]) -> impl Stream<Item = Result<Bytes, String>> + Send + use<> {
    stream::iter(vec![Ok(Bytes::copy_from_slice(bytes)), Err("the line is dead".to_owned())])
}

/// Returns an empty body.
pub(crate) fn nothing() -> Body {
    stream::iter(Vec::new())
}

/// Returns bytes without repeated parts.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(next).collect()
}

pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest::of(bytes)
}
