//! Storage of tenants: the disks of allocations, the memory of devices, and the shared directories of cells; how they are
//! created, wiped or removed, and inspected.
//!
//! A wipe succeeds only if the wiped data was read back and nothing was found. If that cannot be verified, the result
//! reports it, and is no success.

mod device;
mod disk;
mod remove_tree;
mod shared;

pub use device::{Found, Unproven, Wiped, leave, plant, search, wipe};
pub use disk::{
    DiskFile, DiskId, DiskIdError, DiskState, DiskWiped, Disks, Error, Look, LoopDevice, Mount, PROGRAMS,
    Point, Survey,
};
pub use remove_tree::remove_tree;
pub use shared::{ShareError, SharedFiles, SharedFilesError};
