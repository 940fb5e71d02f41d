//! Downloads one blob: streamed, hashed while it is written, and resumed after an interruption.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue};
use muster_image::{Blob, Digest};
use muster_wire::task::Refusal;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::connection::{Answer, RegistryConnection};
use super::persist::Persistence;
use super::registry::Registry;
use super::store::Reserve;
use crate::driver::{Driver, Undone};
use crate::link::CallError;

/// Maximum chunks waiting for the disk, of at most 128 KiB each.
const WAITING: usize = 8;

/// Fetches a blob unless it exists. Concurrent callers wait for the first, and then find the blob.
pub(super) async fn fetch(registry: &Registry<'_>, blob: &Blob) -> Result<(), Undone> {
    let store = &registry.node.store;
    let turn = store.turn(&blob.digest);
    let _turn = turn.lock().await;
    if store.has(blob) {
        return Ok(());
    }
    let (path, size) = (store.partial(&blob.digest), blob.size);
    let mut draft = blocking(move || Draft::open(path, size)).await?;
    let mut line = RegistryConnection::new(&registry.node.dial);
    let mut persistence = Persistence::new(&registry.node.env);
    loop {
        while draft.length < blob.size {
            let ended;
            (draft, ended) = go_on(registry, &mut line, blob, draft, &mut persistence).await?;
            if let Err(error) = ended {
                persistence.pause_after(error).await.map_err(|error| registry.failed(&error))?;
            }
        }
        let (digest, place, driver) = (blob.digest, store.blob(&blob.digest), registry.node.driver.clone());
        match blocking(move || draft.finish(&digest, &place, &*driver)).await? {
            Finished::Whole => return Ok(()),
            // Data from an earlier agent process may not have reached the disk intact: start over once.
            Finished::Wrong { draft: Some(empty), .. } => draft = empty,
            Finished::Wrong { found, draft: None } => return Err(other(registry, &found, &blob.digest)),
        }
    }
}

/// Returns the error for a digest mismatch.
pub(super) fn other(registry: &Registry<'_>, found: &Digest, asked: &Digest) -> Undone {
    let repository = registry.repository;
    let why = format!(
        "the content from {repository} has the digest {found}, but {asked} was requested; nothing of it was kept"
    );
    Undone::because(Refusal::ArtifactDamaged, why)
}

/// Requests the missing part and writes it. Received data is kept, whatever the outcome.
async fn go_on(
    registry: &Registry<'_>,
    line: &mut RegistryConnection,
    blob: &Blob,
    mut draft: Draft,
    persistence: &mut Persistence,
) -> Result<(Draft, Result<(), CallError>), Undone> {
    let mut headers = HeaderMap::new();
    if draft.length > 0 {
        let range = HeaderValue::from_str(&format!("bytes={}-", draft.length));
        headers.insert(RANGE, range.expect("digits are a header"));
    }
    let mut answer = match registry.get(line, &format!("blobs/{}", blob.digest), &headers).await {
        Ok(answer) => answer,
        // The partial file is longer than the blob in the registry, so it is a different blob.
        Err(CallError::Refused { status: 416, .. }) if draft.length > 0 => {
            return Ok((blocking(move || draft.clear()).await?, Ok(())));
        }
        Err(error) => return Ok((draft, Err(error))),
    };
    if !begins_at(&answer, draft.length) {
        draft = blocking(move || draft.clear()).await?;
    }
    let said = number(&answer.headers, CONTENT_LENGTH).map(|rest| rest.saturating_add(draft.length));
    if said.is_some_and(|said| said != blob.size) {
        return Err(length(blob, said.unwrap_or_default()));
    }
    let mut came = draft.length;
    let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING);
    // If this future is dropped, the writer ends with the sender; until then its lock blocks the next writer.
    let writing = spawn_blocking(move || {
        while let Some(bytes) = receiver.blocking_recv() {
            draft.write(&bytes)?;
        }
        Ok::<_, io::Error>(draft)
    });
    let ended = loop {
        match answer.next().await {
            Ok(Some(bytes)) => {
                came += bytes.len() as u64;
                if came > blob.size || sender.send(bytes).await.is_err() {
                    break Ok(());
                }
                persistence.got_on();
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    drop(sender);
    let draft =
        writing.await.map_err(|error| Undone::from(error.to_string()))?.map_err(|error| disk(&error))?;
    if came > blob.size {
        let _ = fs::remove_file(&draft.path);
        return Err(length(blob, came));
    }
    line.keep(answer);
    let short = || CallError::Lost(format!("it ended after {came} of {} bytes", blob.size));
    Ok((draft, if ended.is_ok() && came < blob.size { Err(short()) } else { ended }))
}

/// Reports whether a response continues at the current length.
fn begins_at(answer: &Answer, length: u64) -> bool {
    if answer.status != 206 {
        return length == 0;
    }
    let range = answer.headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let begins = range.and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse().ok());
    begins == Some(length)
}

fn number(headers: &HeaderMap, name: HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn length(blob: &Blob, found: u64) -> Undone {
    let why = format!("{} has {found} bytes or more, but {} in its descriptor", blob.digest, blob.size);
    Undone::because(Refusal::ArtifactDamaged, why)
}

fn disk(error: &io::Error) -> Undone {
    Undone::because(Refusal::ArtifactPull, format!("the image cannot be stored on the node's disk: {error}"))
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Undone> {
    let done = spawn_blocking(work).await.map_err(|error| Undone::from(error.to_string()))?;
    done.map_err(|error| disk(&error))
}

/// A partially downloaded blob.
struct Draft {
    path: PathBuf,
    file: File,
    hash: Sha256,
    length: u64,
    /// Whether part of it is from an earlier agent process.
    inherited: bool,
    reserve: Reserve,
}

enum Finished {
    Whole,
    /// Another blob; with a draft to start over, if that makes sense.
    Wrong {
        found: Digest,
        draft: Option<Draft>,
    },
}

impl Draft {
    fn open(path: PathBuf, size: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        file.lock()?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 256 << 10];
        let mut length = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hash.update(&buffer[..read]),
            }
            length = file.stream_position()?;
        }
        let draft = Self { path, file, hash, length, inherited: length > 0, reserve: Reserve::default() };
        if length > size { draft.clear() } else { Ok(draft) }
    }

    fn clear(mut self) -> io::Result<Self> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        (self.hash, self.length, self.inherited) = (Sha256::new(), 0, false);
        Ok(self)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.reserve.take(&self.file, bytes.len() as u64);
        if let Err(error) = written.and_then(|()| self.file.write_all(bytes)) {
            // A partial layer would only keep a full disk full.
            if error.kind() == io::ErrorKind::StorageFull {
                let _ = fs::remove_file(&self.path);
            }
            return Err(error);
        }
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn finish(self, asked: &Digest, place: &Path, driver: &dyn Driver) -> io::Result<Finished> {
        let found = Digest::from_bytes(self.hash.clone().finalize().into());
        if found != *asked {
            if self.inherited {
                return Ok(Finished::Wrong { found, draft: Some(self.clear()?) });
            }
            fs::remove_file(&self.path)?;
            return Ok(Finished::Wrong { found, draft: None });
        }
        self.file.sync_all()?;
        driver.reach_point("pull:downloaded");
        fs::rename(&self.path, place)?;
        if let Some(folder) = place.parent() {
            File::open(folder)?.sync_all()?;
        }
        driver.reach_point("pull:renamed");
        Ok(Finished::Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_that_would_take_the_reserve_is_stopped_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blob");
        let mut draft = Draft::open(path.clone(), 1 << 30).unwrap();
        draft.reserve = Reserve::of(0);
        draft.write(b"some").unwrap();
        assert!(path.exists());
        draft.reserve = Reserve::of(u64::MAX);
        let error = draft.write(b"more").unwrap_err();
        assert!(error.to_string().contains("MB are reserved"), "{error}");
        assert!(!path.exists(), "half a layer would only keep the disk full");
    }
}
