//! The file of an upload while a request writes to it. Everything here may block on a disk.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::SystemTime;

use tokio::runtime::Handle;

use super::hashes::Key;
use super::name::FileName;
use super::{Finished, Inner, StorageError, UploadError, at, folder};
use crate::Digest;
use crate::hash::Hash;

/// Size of a read when a file is hashed again.
const AGAIN: usize = 256 << 10;
/// Bytes hashed before they are written: few enough to stay in the processor's cache.
const HOT: usize = 64 << 10;
/// Number of bytes after which a background flush starts, so that the final sync has little to do.
const FLUSHED: u64 = 16 << 20;

/// The fate of the file when writing ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    /// Kept for more bytes.
    Stays,
    /// Not resumable: removed unless it was finished.
    Goes,
    /// Finished or removed: nothing is left to do.
    Done,
}

/// A locked upload: no other request, on this server or another, writes to it until this is dropped.
pub(super) struct Writing {
    store: Arc<Inner>,
    key: Key,
    path: PathBuf,
    file: File,
    /// Hash of all bytes so far; absent if some were received by another server or before a restart.
    hash: Option<Hash>,
    length: u64,
    afterwards: Afterwards,
    flushing: Flushing,
}

/// A background flush. It keeps the file open and thereby its lock, so an upload is not released before the flush has ended.
#[derive(Default)]
struct Flushing {
    /// Length up to which a flush was started.
    until: u64,
    under_way: Option<Receiver<io::Result<()>>>,
    /// The system reports lost bytes only once, so an error here counts like one of the final sync.
    fault: Option<io::ErrorKind>,
}

impl Flushing {
    /// Starts a flush unless one is running. Without a runtime or a second file handle, the final sync does all the work.
    fn begin(&mut self, file: &File, length: u64) {
        if length < self.until + FLUSHED {
            return;
        }
        match self.under_way.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => return,
            Some(Ok(Err(error))) => self.fault = Some(error.kind()),
            Some(Ok(Ok(())) | Err(TryRecvError::Disconnected)) | None => {}
        }
        self.under_way = None;
        let (Ok(runtime), Ok(file)) = (Handle::try_current(), file.try_clone()) else { return };
        let (ended, under_way) = channel();
        (self.until, self.under_way) = (length, Some(under_way));
        runtime.spawn_blocking(move || {
            let synced = file.sync_data();
            drop(file);
            let _ = ended.send(synced);
        });
    }

    /// Waits for the flush.
    fn end(&mut self) -> io::Result<()> {
        if let Some(Ok(Err(error))) = self.under_way.take().map(|under_way| under_way.recv()) {
            self.fault = Some(error.kind());
        }
        self.fault.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

/// Creates an upload's file.
pub(super) fn create(store: &Inner, key: Key) -> Result<File, StorageError> {
    let path = store.upload_path(key.0, key.1);
    let owner = store.uploads().join(key.0.to_string());
    // A concurrent sweep removes empty owner folders, possibly between the two steps.
    for _ in 0..8 {
        folder::make(&owner)?;
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                touch(store, &file).map_err(at("date", &path))?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(at("make", &path)(error)),
        }
    }
    Err(at("make", &path)(io::ErrorKind::NotFound.into()))
}

impl Writing {
    /// Locks an upload.
    pub(super) fn open(store: Arc<Inner>, key: Key) -> Result<Self, UploadError> {
        let path = store.upload_path(key.0, key.1);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                store.ensure_ours()?;
                return Err(UploadError::Unknown);
            }
            Err(error) => return Err(at("open", &path)(error).into()),
        };
        Self::lock(store, key, path, file, Afterwards::Stays)
    }

    /// Creates an upload that cannot be resumed: it is finished in one request or removed.
    pub(super) fn single(store: Arc<Inner>, key: Key) -> Result<Self, UploadError> {
        let path = store.upload_path(key.0, key.1);
        let file = create(&store, key)?;
        Self::lock(store, key, path, file, Afterwards::Goes)
    }

    fn lock(
        store: Arc<Inner>,
        key: Key,
        path: PathBuf,
        file: File,
        afterwards: Afterwards,
    ) -> Result<Self, UploadError> {
        store.reach("blob:opened");
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(UploadError::Busy),
            Err(fs::TryLockError::Error(error)) => return Err(at("lock", &path)(error).into()),
        }
        // Between open and lock, the previous lock holder may have finished the upload: this file is then a blob, and
        // another byte would corrupt it.
        let mine = file.metadata().map_err(at("inspect", &path))?;
        let there = match fs::symlink_metadata(&path) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(UploadError::Unknown),
            Err(error) => return Err(at("inspect", &path)(error).into()),
        };
        if (mine.dev(), mine.ino()) != (there.dev(), there.ino()) {
            return Err(UploadError::Unknown);
        }
        let length = mine.len();
        let kept = store.hashes.take(key, length);
        let hash = if length == 0 { Some(Hash::new()) } else { kept };
        let flushing = Flushing { until: length, ..Flushing::default() };
        Ok(Self { store, key, path, file, hash, length, afterwards, flushing })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends bytes. After an error, the bytes already written are still counted and hashed.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), UploadError> {
        while !bytes.is_empty() {
            let part = &bytes[..bytes.len().min(HOT)];
            let written = match self.file.write_at(part, self.length) {
                Ok(0) => return Err(at("write", &self.path)(io::ErrorKind::WriteZero.into()).into()),
                Ok(written) => written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(refused("write", &self.path, error)),
            };
            if let Some(hash) = &mut self.hash {
                hash.update(&bytes[..written]);
            }
            self.length += written as u64;
            bytes = &bytes[written..];
        }
        self.flushing.begin(&self.file, self.length);
        self.store.reach("blob:appended");
        Ok(())
    }

    /// Releases an upload that waits for more bytes and returns its length.
    pub(super) fn close(self) -> u64 {
        self.length
    }

    /// Verifies the digest, syncs the file and moves it to the finished files; the module header explains the order.
    pub(super) fn finish(mut self, digest: &Digest) -> Result<Finished, UploadError> {
        let found = match &self.hash {
            Some(hash) => hash.digest(),
            None => hash_again(&self.file, self.length).map_err(at("read", &self.path))?.digest(),
        };
        if found != *digest {
            self.remove()?;
            return Err(UploadError::Mismatch { found });
        }
        self.store.reach("blob:compared");
        touch(&self.store, &self.file).map_err(at("date", &self.path))?;
        if let Err(error) = self.flushing.end().and_then(|()| self.file.sync_all()) {
            // After a failed sync, the system may still show unwritten data, and the next sync may succeed without writing
            // it. So the upload cannot be resumed.
            if let Err(stays) = self.remove() {
                tracing::warn!(error = %stays, "an upload that could not be synced to disk stays until it is collected");
            }
            return Err(refused("sync", &self.path, error));
        }
        self.store.reach("blob:synced");
        // A row must not name a file in a folder that only took the storage's place.
        self.store.ensure_ours()?;
        let name = FileName::new(found, self.store.env.uuid());
        let home = name.path(&self.store);
        fs::rename(&self.path, &home).map_err(at("move into place", &home))?;
        self.afterwards = Afterwards::Done;
        self.store.reach("blob:renamed");
        let sealed = fs::Permissions::from_mode(0o444);
        self.file.set_permissions(sealed).map_err(at("close", &home))?;
        folder::sync(&self.store.blobs().join(name.shard()))?;
        Ok(Finished { file: name.to_string(), size: self.length })
    }

    /// Removes the upload.
    pub(super) fn remove(&mut self) -> Result<(), StorageError> {
        self.afterwards = Afterwards::Done;
        self.store.hashes.forget(self.key);
        fs::remove_file(&self.path).map_err(at("remove", &self.path))
    }
}

impl Drop for Writing {
    /// Runs before the file is closed, and so before another request can acquire the lock.
    fn drop(&mut self) {
        let flushed = self.flushing.end();
        match self.afterwards {
            // Bytes lost by the flush would be missing in the middle.
            Afterwards::Stays if flushed.is_err() => {
                if let Err(error) = self.remove() {
                    tracing::warn!(%error, "an upload with a part lost by the disk stays until it is collected");
                }
            }
            Afterwards::Stays => {
                if let Err(error) = touch(&self.store, &self.file) {
                    tracing::warn!(path = %self.path.display(), %error, "an upload could not be dated and may be collected early");
                }
                if let Some(hash) = self.hash.take() {
                    self.store.hashes.keep(self.key, hash, self.length);
                }
            }
            Afterwards::Goes => {
                if let Err(error) = self.remove() {
                    tracing::warn!(%error, "the partial content of a broken push stays until it is collected");
                }
            }
            Afterwards::Done => {}
        }
    }
}

/// The caller's clock decides an upload's age, not the file system's.
fn touch(store: &Inner, file: &File) -> io::Result<()> {
    file.set_modified(SystemTime::from(store.env.now()))
}

fn refused(verb: &str, path: &Path, error: io::Error) -> UploadError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => UploadError::Full,
        _ => at(verb, path)(error).into(),
    }
}

/// Hashes the first bytes of a file.
pub(super) fn hash_again(file: &File, length: u64) -> io::Result<Hash> {
    let mut hash = Hash::new();
    let mut buffer = vec![0; AGAIN];
    let mut offset = 0;
    while offset < length {
        let wanted = usize::try_from(length - offset).map_or(AGAIN, |left| left.min(AGAIN));
        match file.read_at(&mut buffer[..wanted], offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                hash.update(&buffer[..read]);
                offset += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hash)
}
