//! Free space of the node's file system, checked while an image is written.
//!
//! A layer of half a megabyte can unpack to gigabytes, and its manifest does not reveal it. So the limit is the disk itself:
//! space is granted in steps, and each step only if the reserve of [`Limits`] stays free afterwards. A maximum compression
//! ratio was rejected: legitimate layers of zeros exceed any useful ratio, and many small bombs stay below it.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::Limits;
use crate::limits::Footprint;

/// Step size of grants.
const STEP: u64 = 4 << 20;
/// Minimum space of a member: an inode, a directory entry, and lines in the tree and the seal.
pub(crate) const ENTRY: u64 = 4096;

/// Short resource of the node's file system, with numbers. Its display is a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// Bytes.
    #[error(
        "{} MB of disk space are free, {} MB of them are reserved, and {} MB are needed",
        megabytes(*.free), megabytes(*.reserve), megabytes(*.needed)
    )]
    Space {
        /// Free for root's programs.
        free: u64,
        /// Must stay free.
        reserve: u64,
        /// Needed at least.
        needed: u64,
    },
    /// Inodes.
    #[error("{free} inodes are free, {reserve} of them are reserved, and {needed} are needed")]
    Inodes {
        /// Free.
        free: u64,
        /// Must stay free.
        reserve: u64,
        /// Needed at least.
        needed: u64,
    },
    /// The budget of the owner.
    #[error(
        "{} of {} MB and {} of {} files are used, and it needs {} MB and {} files or more",
        megabytes(used.bytes), megabytes(most.bytes), used.files, most.files, megabytes(needed.bytes), needed.files
    )]
    Budget {
        /// The budget.
        most: Footprint,
        /// Used by other images.
        used: Footprint,
        /// Needed at least.
        needed: Footprint,
    },
}

impl Shortage {
    /// Returns the shortage that stopped a write, if any.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// Converts, rounded up, so that a shortage never reads "0 MB".
fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Returns the free bytes and inodes of a path's file system. One with dynamic inodes counts as unlimited.
pub(crate) fn free_at(path: &Path) -> io::Result<Footprint> {
    Ok(free_of(&rustix::fs::statvfs(path)?))
}

fn free_of(disk: &rustix::fs::StatVfs) -> Footprint {
    Footprint {
        bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        files: if disk.f_files == 0 { u64::MAX } else { disk.f_favail },
    }
}

/// Returns the shortage if this much does not fit beside the reserve.
pub(crate) fn shortage(free: Footprint, needed: Footprint, limits: &Limits) -> Option<Shortage> {
    let (reserve, short) =
        (limits.free, |free: u64, reserve: u64, needed: u64| free < reserve.saturating_add(needed));
    if short(free.bytes, reserve.bytes, needed.bytes) {
        return Some(Shortage::Space { free: free.bytes, reserve: reserve.bytes, needed: needed.bytes });
    }
    short(free.files, reserve.files, needed.files).then_some(Shortage::Inodes {
        free: free.files,
        reserve: reserve.files,
        needed: needed.files,
    })
}

/// Grants space on one file system.
pub(crate) struct Room {
    folder: OwnedFd,
    limits: Limits,
    granted: u64,
}

impl Room {
    pub(crate) fn open(folder: &Path, limits: &Limits) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        Ok(Self { folder, limits: limits.clone(), granted: 0 })
    }

    /// Requests space before it is written.
    pub(crate) fn take(&mut self, bytes: u64) -> io::Result<()> {
        if self.granted < bytes {
            let step = STEP.max(bytes);
            let free = free_of(&rustix::fs::fstatvfs(&self.folder)?);
            // Every member takes at least an entry's space, so a step holds no more files than this.
            let needed = Footprint { bytes: step, files: STEP / ENTRY };
            if let Some(short) = shortage(free, needed, &self.limits) {
                return Err(io::Error::new(io::ErrorKind::StorageFull, short));
            }
            self.granted = step;
        }
        self.granted -= bytes;
        Ok(())
    }
}

/// Writer that requests the space before each write.
pub(crate) struct Roomed<'r, W> {
    pub(crate) inner: W,
    pub(crate) room: &'r mut Room,
}

impl<W: Write> Write for Roomed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room.take(bytes.len() as u64)?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_whatever_would_touch_the_reserve() {
        let reserve = Footprint { bytes: 100 << 20, files: 10 };
        let limits = Limits { free: reserve, ..Limits::default() };
        let of = |bytes: u64, files: u64| Footprint { bytes: bytes << 20, files };
        let short = |free, needed| shortage(free, needed, &limits);
        assert_eq!(short(of(150, 20), of(50, 10)), None);
        assert_eq!(
            short(of(150, 20), of(51, 10)).unwrap().to_string(),
            "150 MB of disk space are free, 100 MB of them are reserved, and 51 MB are needed"
        );
        assert_eq!(
            short(of(150, 20), of(50, 11)).unwrap().to_string(),
            "20 inodes are free, 10 of them are reserved, and 11 are needed"
        );
        assert!(short(of(150, u64::MAX), of(u64::MAX >> 20, 0)).is_some(), "it does not overflow");
    }
}
