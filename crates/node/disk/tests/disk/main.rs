//! Disks of allocations, with real loop devices and real file systems.

mod crash;
mod life;
mod node;
mod wipe;
