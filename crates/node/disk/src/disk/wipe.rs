//! Wipes a disk, and verifies the wipe.

use std::fs::{self, File, OpenOptions};

use super::disks::{DiskState, Disks, Point, sync_folder};
use super::extent::{not_zero, zero};
use super::{DiskId, Error};

/// Result of a wipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskWiped {
    /// Extents overwritten; zero if an earlier, interrupted wipe had completed them.
    pub extents: u64,
    /// Bytes overwritten.
    pub overwritten: u64,
    /// Bytes read back as zero.
    pub read_again: u64,
}

impl Disks {
    /// Overwrites all data of the disk's file and reads it back. The disk must be detached, and is never mounted again from
    /// the start of the wipe on. Repeating it wipes again.
    pub fn wipe(&self, id: &DiskId) -> Result<DiskWiped, Error> {
        let (state, path) = self.state(id)?.ok_or_else(|| Error::Absent(id.clone()))?;
        self.refuse_if_used(id)?;
        let wiping = self.path(id, DiskState::Wiping);
        if state != DiskState::Wiping {
            fs::rename(&path, &wiping).map_err(Error::at("mark", &wiping))?;
            sync_folder(&self.folder)?;
        }
        self.reach(Point::Marked);
        let file = OpenOptions::new().read(true).write(true).open(&wiping);
        let file = file.map_err(Error::at("open", &wiping))?;
        let overwrite = zero(&file, 0, |extents| self.reach(Point::Overwritten(extents)));
        let (extents, overwritten) = overwrite.map_err(Error::at("overwrite", &wiping))?;
        file.sync_data().map_err(Error::at("sync", &wiping))?;
        self.reach(Point::Synced);
        let (read_again, residue) = not_zero(&file).map_err(Error::at("read back", &wiping))?;
        if !residue.is_empty() {
            return Err(Error::Residue { id: id.clone(), residue });
        }
        if read_again < overwritten {
            let residue = vec![format!("of {overwritten} bytes only {read_again} could be read back")];
            return Err(Error::Residue { id: id.clone(), residue });
        }
        self.reach(Point::ReadAgain);
        let wiped = self.path(id, DiskState::Wiped);
        fs::rename(&wiping, &wiped).map_err(Error::at("mark", &wiped))?;
        sync_folder(&self.folder)?;
        Ok(DiskWiped { extents, overwritten, read_again })
    }

    /// Reads the disk's file again and describes nonzero data. It relies on no record, not even that of the wipe.
    pub fn residue(&self, id: &DiskId) -> Result<Vec<String>, Error> {
        let (_, path) = self.state(id)?.ok_or_else(|| Error::Absent(id.clone()))?;
        let file = File::open(&path).map_err(Error::at("open", &path))?;
        Ok(not_zero(&file).map_err(Error::at("read", &path))?.1)
    }

    /// Removes the disk, which must be wiped or never used; returns whether it existed.
    pub fn remove(&self, id: &DiskId) -> Result<bool, Error> {
        let Some((state, path)) = self.state(id)? else { return Ok(false) };
        if matches!(state, DiskState::Ready | DiskState::Wiping) {
            return Err(Error::State { id: id.clone(), state, what: "wipe it before it is removed" });
        }
        self.refuse_if_used(id)?;
        let unfinished = self.path(id, DiskState::New);
        for path in [path, unfinished] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::at("remove", &path)(error));
                }
                _ => {}
            }
        }
        sync_folder(&self.folder)?;
        Ok(true)
    }
}
