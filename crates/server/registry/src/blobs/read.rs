//! Finished files: reading, measuring and removing.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use tokio::task::JoinHandle;

use super::name::FileName;
use super::{Blobs, StorageError, at, blocking};

/// Size of a read. The reader has one part while the next is being read.
const PART: u64 = 128 << 10;

/// From this length on, the system is advised to read ahead.
const LONG: u64 = 1 << 20;

impl Blobs {
    /// Returns part of a finished file as a stream. A file that is removed meanwhile can still be read to its end.
    pub async fn read(&self, file: &str, range: Range<u64>) -> Result<Reading, StorageError> {
        let name = FileName::parse(file)?;
        let store = self.0.clone();
        blocking(move || {
            let path = name.path(&store);
            let mut open = open(&name, &path)?;
            let length = open.metadata().map_err(at("inspect", &path))?.len();
            if range.end > length {
                return Err(StorageError::Short { file: name.to_string(), length, end: range.end });
            }
            let left = range.end.saturating_sub(range.start);
            if left >= LONG {
                let sequential = rustix::fs::Advice::Sequential;
                if let Err(error) = rustix::fs::fadvise(&open, range.start, None, sequential) {
                    tracing::debug!(%error, "the system rejected the read-ahead hint for a file");
                }
            }
            open.seek(SeekFrom::Start(range.start)).map_err(at("read", &path))?;
            Ok(Reading { left, ahead: (left > 0).then(|| read_part(open, left)) })
        })
        .await
    }

    /// Returns the length of a finished file.
    pub async fn length(&self, file: &str) -> Result<u64, StorageError> {
        let name = FileName::parse(file)?;
        let store = self.0.clone();
        blocking(move || {
            let path = name.path(&store);
            fs::metadata(&path).map(|facts| facts.len()).map_err(missing(&name, &path))
        })
        .await
    }

    /// Removes a finished file; reports whether it existed. The caller ensures that no row names it.
    pub async fn remove(&self, file: &str) -> Result<bool, StorageError> {
        let name = FileName::parse(file)?;
        let store = self.0.clone();
        blocking(move || {
            let path = name.path(&store);
            match fs::remove_file(&path) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(at("remove", &path)(error)),
            }
        })
        .await
    }
}

fn open(name: &FileName, path: &std::path::Path) -> Result<File, StorageError> {
    File::open(path).map_err(missing(name, path))
}

fn missing(name: &FileName, path: &std::path::Path) -> impl FnOnce(io::Error) -> StorageError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => StorageError::Missing(name.to_string()),
        _ => at("open", path)(error),
    }
}

/// A stream over part of a finished file.
#[derive(Debug)]
pub struct Reading {
    left: u64,
    ahead: Option<JoinHandle<(File, io::Result<Bytes>)>>,
}

impl Reading {
    /// Memory of a stream: the part that its reader has, and the next one.
    pub const BUFFERED: usize = 2 * PART as usize;

    /// Returns the number of remaining bytes.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Stream for Reading {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(ahead) = &mut self.ahead else { return Poll::Ready(None) };
        let answer = std::task::ready!(Pin::new(ahead).poll(context));
        self.ahead = None;
        let (file, part) = match answer {
            Ok(answer) => answer,
            Err(error) => return Poll::Ready(Some(Err(io::Error::other(error)))),
        };
        if let Ok(bytes) = &part {
            self.left -= bytes.len() as u64;
            if self.left > 0 {
                self.ahead = Some(read_part(file, self.left));
            }
        }
        Poll::Ready(Some(part))
    }
}

/// Fills a buffer with as few system calls as possible.
fn read_whole(file: &File, bytes: &mut Vec<u8>, wanted: usize) -> io::Result<()> {
    // A buffer may have more capacity than requested; bytes read into the excess would be missing later.
    if bytes.capacity() != wanted {
        bytes.resize(wanted, 0);
        return { file }.read_exact(bytes);
    }
    while bytes.len() < wanted {
        match rustix::io::read(file, rustix::buffer::spare_capacity(bytes)) {
            // Finished files never shrink, so missing bytes are a storage error.
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read_part(file: File, left: u64) -> JoinHandle<(File, io::Result<Bytes>)> {
    tokio::task::spawn_blocking(move || {
        let wanted = left.min(PART);
        let wanted = usize::try_from(wanted).expect("a part fits into memory");
        let mut bytes = Vec::with_capacity(wanted);
        let part = read_whole(&file, &mut bytes, wanted).map(|()| bytes.into());
        (file, part)
    })
}
