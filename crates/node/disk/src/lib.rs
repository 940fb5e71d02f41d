//! What tenants leave behind: an allocation's disk, the memory of devices, and what cells share, how they are made, wiped or removed,
//! and looked at.
//!
//! A wipe is done only when what was wiped has been read again and nothing was found. Where that cannot be seen, the answer
//! says so, and is no success.

mod device;
mod disk;
mod shared;

pub use device::{Found, Unproven, Wiped, leave, plant, search, wipe};
pub use disk::{
    DiskFile, DiskId, DiskIdError, DiskState, DiskWiped, Disks, Error, Look, LoopDevice, Mount, PROGRAMS,
    Point, Survey,
};
pub use shared::{SharedFiles, SharedFilesError};
