//! Uploads: bytes arrive, possibly in several requests, and become a finished file.
//!
//! Received bytes are buffered in memory and written half a MiB at a time by threads that may block, while the next half MiB
//! is buffered. A thread per transfer was rejected: a thousand slow clients would each occupy one.

use std::fmt::Display;
use std::fs;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures::{Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::hashes::Key;
use super::writing::{self, Writing};
use super::{Blobs, Inner, StorageError, UploadError, at, blocking, joined};
use crate::Digest;

/// Buffer size per write. Memory use is at most twice as much: one buffer being filled, one being written.
const GATHERED: usize = 512 << 10;

/// Owner of content that arrives in a single request, without an upload that a client could resume.
const NOBODY: Uuid = Uuid::nil();

/// A finished file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its name, for [`Blobs::read`] and for the row that maps the digest to it.
    pub file: String,
    /// Its length in bytes.
    pub size: u64,
}

impl Blobs {
    /// Starts an upload. The caller provides both ids and never reuses an upload's id.
    pub async fn upload_start(&self, owner: Uuid, upload: Uuid) -> Result<(), StorageError> {
        let store = self.0.clone();
        blocking(move || writing::create(&store, (owner, upload)).map(drop)).await
    }

    /// Returns the number of bytes of an upload; `None` if it does not exist.
    pub async fn upload_length(&self, owner: Uuid, upload: Uuid) -> Result<Option<u64>, StorageError> {
        let store = self.0.clone();
        let path = store.upload_path(owner, upload);
        blocking(move || match fs::metadata(&path) {
            Ok(facts) => Ok(Some(facts.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => store.ensure_ours().map(|()| None),
            Err(error) => Err(at("inspect", &path)(error)),
        })
        .await
    }

    /// Appends the body and returns the upload's new length. `expect_offset` is the end as known to the caller, `most` the
    /// maximum length. If the body ends early, the received bytes are kept; if the caller is cancelled, up to one MiB may be
    /// lost.
    pub async fn upload_append<S, E>(
        &self,
        owner: Uuid,
        upload: Uuid,
        expect_offset: Option<u64>,
        most: u64,
        body: S,
    ) -> Result<u64, UploadError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: Display,
    {
        let mut session = self.session((owner, upload), expect_offset).await?;
        let received = session.receive(most, body).await;
        let writing = session.into_writing().await;
        let length = blocking(move || writing.close()).await;
        received.map(|()| length)
    }

    /// Appends the last bytes, if any, and turns the upload into a finished file if its digest matches.
    pub async fn upload_finish<S, E>(
        &self,
        owner: Uuid,
        upload: Uuid,
        digest: &Digest,
        expect_offset: Option<u64>,
        most: u64,
        body: S,
    ) -> Result<Finished, UploadError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: Display,
    {
        let session = self.session((owner, upload), expect_offset).await?;
        finish(session, digest, most, body).await
    }

    /// Creates a finished file from a single request. Nothing is kept unless all of it is valid.
    pub async fn put<S, E>(&self, digest: &Digest, most: u64, body: S) -> Result<Finished, UploadError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: Display,
    {
        let (store, key) = (self.0.clone(), (NOBODY, self.0.env.uuid()));
        let session = Session::of(move || Writing::single(store, key)).await?;
        finish(session, digest, most, body).await
    }

    /// Removes an upload; reports whether it existed. Returns `Busy` while a request is writing to it.
    pub async fn upload_cancel(&self, owner: Uuid, upload: Uuid) -> Result<bool, UploadError> {
        let store = self.0.clone();
        blocking(move || match Writing::open(store, (owner, upload)) {
            Ok(mut writing) => Ok(writing.remove().map(|()| true)?),
            Err(UploadError::Unknown) => Ok(false),
            Err(error) => Err(error),
        })
        .await
    }

    async fn session(&self, key: Key, expect_offset: Option<u64>) -> Result<Session, UploadError> {
        let store: Arc<Inner> = self.0.clone();
        Session::of(move || {
            let writing = Writing::open(store, key)?;
            let length = writing.length();
            match expect_offset {
                Some(offset) if offset != length => Err(UploadError::Offset { length }),
                _ => Ok(writing),
            }
        })
        .await
    }
}

async fn finish<S, E>(
    mut session: Session,
    digest: &Digest,
    most: u64,
    body: S,
) -> Result<Finished, UploadError>
where
    S: Stream<Item = Result<Bytes, E>> + Send,
    E: Display,
{
    let received = session.receive(most, body).await;
    let (writing, digest) = (session.into_writing().await, *digest);
    blocking(move || match received {
        Ok(()) => writing.finish(&digest),
        Err(error) => {
            drop(writing);
            Err(error)
        }
    })
    .await
}

/// The result of a writing thread: the upload, the emptied buffer, and the outcome.
type Written = (Writing, Vec<u8>, Result<(), UploadError>);

/// An upload that a request is writing to. It is owned either by this struct or by the writing thread.
struct Session {
    here: Option<Writing>,
    away: Option<JoinHandle<Written>>,
}

impl Session {
    async fn of(
        open: impl FnOnce() -> Result<Writing, UploadError> + Send + 'static,
    ) -> Result<Self, UploadError> {
        let writing = blocking(open).await?;
        Ok(Self { here: Some(writing), away: None })
    }

    /// Receives a body, and leaves none of it in memory on any outcome.
    async fn receive<S, E>(&mut self, most: u64, body: S) -> Result<(), UploadError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: Display,
    {
        let mut total = self.here.as_ref().map_or(0, Writing::length);
        if total > most {
            return Err(UploadError::TooLarge { most });
        }
        let mut body = pin!(body);
        let mut gathered = Vec::new();
        let ended = loop {
            let mut bytes = match body.next().await {
                None => break Ok(()),
                Some(Err(why)) => break Err(UploadError::Broken { why: why.to_string() }),
                Some(Ok(bytes)) => bytes,
            };
            total = total.saturating_add(bytes.len() as u64);
            if total > most {
                break Err(UploadError::TooLarge { most });
            }
            while !bytes.is_empty() {
                let part = bytes.len().min(GATHERED - gathered.len());
                gathered.extend_from_slice(&bytes[..part]);
                bytes.advance(part);
                if gathered.len() == GATHERED {
                    gathered = self.write(gathered).await?;
                }
            }
        };
        if !gathered.is_empty() {
            self.write(gathered).await?;
        }
        self.settle().await?;
        ended
    }

    /// Queues bytes to be written after the previous ones, and returns an empty buffer.
    async fn write(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, UploadError> {
        let empty = self.settle().await?;
        let mut writing = self.here.take().expect("it is here once it has settled");
        self.away = Some(tokio::task::spawn_blocking(move || {
            let result = writing.write(&bytes);
            let mut bytes = bytes;
            bytes.clear();
            (writing, bytes, result)
        }));
        Ok(empty)
    }

    /// Waits until the queued bytes are written. Cancelling the wait loses nothing: the work stays in its place.
    async fn settle(&mut self) -> Result<Vec<u8>, UploadError> {
        let Some(away) = &mut self.away else { return Ok(Vec::new()) };
        let (writing, empty, result) = joined(away).await;
        self.away = None;
        self.here = Some(writing);
        result.map(|()| empty)
    }

    async fn into_writing(mut self) -> Writing {
        // The error was already returned by `receive`; only the upload itself is needed here.
        let _told = self.settle().await;
        self.here.take().expect("it is here once it has settled")
    }
}

impl Drop for Session {
    /// The request was cancelled midway. Closing a file may block on a disk or a network, so it happens on a blocking
    /// thread; without a runtime there is no task to block.
    fn drop(&mut self) {
        let (here, away) = (self.here.take(), self.away.take());
        let Ok(runtime) = Handle::try_current() else { return };
        if let Some(writing) = here {
            runtime.spawn_blocking(move || drop(writing));
        }
        if let Some(away) = away {
            runtime.spawn(async move {
                if let Ok((writing, ..)) = away.await {
                    tokio::task::spawn_blocking(move || drop(writing));
                }
            });
        }
    }
}
