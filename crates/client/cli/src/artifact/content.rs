//! Content to send: bytes in memory, or a part of a file. A file that changes during the transfer is refused: its digest
//! would no longer match.

use std::fs::{File, Metadata};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use muster_trust::Digest;
use sha2::{Digest as _, Sha256};

use super::progress::Bar;
use crate::failure::{Exit, Failure, Result};

/// Buffer size for hashing a file.
const PIECE: usize = 1 << 20;

/// Content to send.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Memory(Bytes),
    Part(Part),
}

/// A part of a file: all of it, or one member of an archive.
#[derive(Debug, Clone)]
pub(super) struct Part {
    path: PathBuf,
    offset: u64,
    length: u64,
    stamp: Stamp,
}

/// Metadata that reveals a change. Resetting the modification time still updates the change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
            size: about.size(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        }
    }
}

fn unreadable(path: &Path, error: std::io::Error) -> Failure {
    Failure::local(&format!("{} cannot be read", path.display()), error)
}

impl Part {
    /// Returns a whole file in its current state.
    pub(super) fn whole(path: &Path) -> Result<Self> {
        let about = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
        Ok(Self { path: path.to_owned(), offset: 0, length: about.size(), stamp: Stamp::of(&about) })
    }

    /// Returns a part of it.
    pub(super) fn slice(&self, offset: u64, length: u64) -> Self {
        Self { offset: self.offset + offset, length, ..self.clone() }
    }

    fn changed(&self) -> Failure {
        let detail = format!("{} changed while it was read; nothing was published", self.path.display());
        Failure::new(Exit::Failed, "file_changed", detail).next("push it again when no process writes to it")
    }

    /// Opens the file, if it is unchanged.
    fn open(&self) -> Result<File> {
        let file = File::open(&self.path).map_err(|error| unreadable(&self.path, error))?;
        self.check(&file)?;
        Ok(file)
    }

    fn check(&self, file: &File) -> Result<()> {
        let about = file.metadata().map_err(|error| unreadable(&self.path, error))?;
        if Stamp::of(&about) == self.stamp { Ok(()) } else { Err(self.changed()) }
    }

    /// Reads bytes of it. The file is checked before and after, so that a change in between is detected.
    fn read(&self, from: u64, most: usize) -> Result<Bytes> {
        let mut file = self.open()?;
        let length = usize::try_from(self.length.saturating_sub(from)).unwrap_or(most).min(most);
        let mut bytes = vec![0; length];
        let read = file.seek(SeekFrom::Start(self.offset + from)).and_then(|_| file.read_exact(&mut bytes));
        match read {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Err(self.changed()),
            read => read.map_err(|error| unreadable(&self.path, error))?,
        }
        self.check(&file)?;
        Ok(bytes.into())
    }
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Part(part) => part.length,
        }
    }

    /// Reads at most this many bytes, from an offset.
    pub(super) fn read(&self, from: u64, most: usize) -> Result<Bytes> {
        match self {
            Self::Memory(bytes) => {
                let from = usize::try_from(from).unwrap_or(bytes.len()).min(bytes.len());
                Ok(bytes.slice(from..bytes.len().min(from + most)))
            }
            Self::Part(part) => part.read(from, most),
        }
    }

    /// Returns an error if the file has changed.
    pub(super) fn still_the_same(&self) -> Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::Part(part) => part.open().map(drop),
        }
    }

    /// Returns the digest of all its bytes.
    pub(super) fn digest(&self, bar: &Bar) -> Result<Digest> {
        let mut hash = Sha256::new();
        let mut at = 0;
        while at < self.length() {
            let piece = self.read(at, PIECE)?;
            hash.update(&piece);
            at += piece.len() as u64;
            bar.at(at);
        }
        self.still_the_same()?;
        Ok(Digest::from_bytes(hash.finalize().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::progress::Progress;
    use std::io::Write as _;

    #[test]
    fn a_file_is_read_in_parts_and_named_by_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        let bar = Progress::silent().begin("f", "", 10);
        let whole = Part::whole(&path).unwrap();
        let content = Content::Part(whole.clone());
        assert_eq!(content.read(7, 100).unwrap(), &b"789"[..]);
        assert_eq!(content.read(10, 100).unwrap(), &b""[..]);
        assert_eq!(content.digest(&bar).unwrap(), Digest::of(b"0123456789"));
        let member = Content::Part(whole.slice(2, 3));
        assert_eq!((member.length(), member.digest(&bar).unwrap()), (3, Digest::of(b"234")));
    }

    #[test]
    fn a_file_that_changed_is_refused_even_if_it_looks_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let refused = |change: &dyn Fn()| {
            std::fs::write(&path, b"0123456789").unwrap();
            let content = Content::Part(Part::whole(&path).unwrap());
            change();
            let failure = content.read(0, 4).unwrap_err();
            assert_eq!(failure.code, "file_changed");
            assert!(content.still_the_same().is_err());
        };
        refused(&|| std::fs::write(&path, b"012345678").unwrap());
        refused(&|| File::options().append(true).open(&path).unwrap().write_all(b"x").unwrap());
        // Another file of the same size and time in its place.
        refused(&|| {
            let (other, file) = (folder.path().join("g"), File::open(&path).unwrap());
            std::fs::write(&other, b"9876543210").unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
            std::fs::rename(&other, &path).unwrap();
        });
    }
}
