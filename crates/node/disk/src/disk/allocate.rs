//! Space on the node for a disk: a write to a disk must never fail because the node's own file system is full. ext4 would
//! then make the disk read-only, for every cell on it.

use std::fs::{File, OpenOptions};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::disks::{DiskState, Disks, MIB};
use super::{DiskId, Error};

/// Allocates every block of the first `length` bytes of a file, and extends it to at least that length. Unwritten blocks
/// read as zeros, and are no data for the wipe.
pub(super) fn allocate(id: &DiskId, file: &File, path: &Path, length: u64) -> Result<(), Error> {
    let before = file.metadata().map_err(Error::at("inspect", path))?.len();
    // The length changes last: a retry after a crash relies on it.
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
        Ok(()) => {}
        Err(Errno::NOSPC | Errno::DQUOT) => {
            // Blocks beyond the end are returned to the node.
            file.set_len(before).map_err(Error::at("shorten", path))?;
            return Err(Error::NoSpace { id: id.clone(), mb: length / MIB });
        }
        Err(error) => return Err(Error::at("allocate the blocks of", path)(error.into())),
    }
    if before < length {
        file.set_len(length).map_err(Error::at("lengthen", path))?;
    }
    Ok(())
}

impl Disks {
    /// Allocates blocks that a complete disk returned to the node: the kernel may do that when it zeroes a range.
    /// Idempotent.
    pub fn reserve(&self, id: &DiskId) -> Result<(), Error> {
        let Some((DiskState::Ready, path)) = self.state(id)? else { return Ok(()) };
        let file = OpenOptions::new().write(true).open(&path).map_err(Error::at("open", &path))?;
        let length = file.metadata().map_err(Error::at("inspect", &path))?.len();
        allocate(id, &file, &path, length)
    }
}
