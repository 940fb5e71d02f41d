//! Private storage of an allocation: a file on the node with a file system in it, mounted through a loop device.
//!
//! The file has exactly the promised size, with all blocks allocated from the start. So a tenant can fill its own disk but
//! never the node's, and a full file system of the node fails no write of a tenant. Quotas on a shared file system were
//! rejected: they need one particular file system on every node, and scatter a tenant's blocks among all others, where no
//! wipe can be verified to have reached them all.
//!
//! The file's name contains the state of a disk, so that it survives every crash:
//!
//! | file | meaning |
//! | --- | --- |
//! | `ID.new` | being created; without data of a tenant |
//! | `ID.disk` | a complete disk |
//! | `ID.wiping` | the wipe has started: it is never mounted again |
//! | `ID.wiped` | every allocated byte was overwritten and read back as zero; only this can be removed |
//!
//! A wipe reaches every block of the file. It does not reach copies beneath the file: those of a copy-on-write file system
//! (such folders are refused) or of a drive's own remapping (encrypt the drive, or sanitise it before disposal). The mount
//! and the loop device never discard, so that blocks with a tenant's data stay in the file until they are overwritten. Only
//! when the kernel itself zeroes through the device may it return some to the node's file system, which hands out none
//! unzeroed; they are allocated again when that is detected. Blocks that were allocated and never written read as zeros and
//! are no data: the wipe skips them.
//!
//! The caller serializes operations on one disk; different disks may be used in parallel.

mod allocate;
mod busy;
mod detach;
mod disks;
mod error;
mod extent;
mod id;
mod kernel;
mod make;
mod program;
mod repair;
mod resize;
mod survey;
mod wipe;

pub use disks::{DiskState, Disks, Look, Point};
pub use error::Error;
pub use id::{DiskId, DiskIdError};
pub use program::PROGRAMS;
pub use survey::{DiskFile, LoopDevice, Mount, Survey};
pub use wipe::DiskWiped;
