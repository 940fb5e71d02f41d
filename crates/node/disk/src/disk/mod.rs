//! An allocation's private storage: a file on the node with a file system in it, mounted through a loop device.
//!
//! The file has exactly the promised size, and all of its blocks from the start, so a tenant can fill its own disk and never the
//! node's, and a node whose file system is full fails no write of a tenant's. Quotas on a shared file
//! system were rejected: they need one particular file system on every node, and leave a tenant's blocks scattered among
//! everybody's, where no wipe can be seen to have reached them all.
//!
//! What a disk goes through stands in the name of its file, so that it survives every crash:
//!
//! | file | meaning |
//! | --- | --- |
//! | `ID.new` | being made; holds nothing of a tenant's |
//! | `ID.disk` | a complete disk |
//! | `ID.wiping` | the wipe has begun: it is never mounted again |
//! | `ID.wiped` | every allocated byte was overwritten and read again as zero; only this can be removed |
//!
//! A wipe reaches every block that the file has. It does not reach copies beneath the file: what a copy-on-write file system
//! keeps (such folders are refused) or a drive's own remapping (encrypt or sanitise the drive when it leaves the house). The
//! mount and the loop device never discard, so that blocks which once held a tenant's bytes stay in the file until they are
//! overwritten. Only where the kernel itself zeroes through the device may it give some back to the node's file system, which
//! hands out none unzeroed; they are allocated again when that is noticed. Blocks that were allocated and never written read as
//! zeros and are no data: the wipe skips them.
//!
//! Whoever calls does one thing at a time with one disk; different disks may be worked on at once.

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
