//! Operations on allocations, and their steps, one for each file.

mod apply;
mod cells;
mod claim;
mod clean;
mod create;
mod destroy;
mod ensure_releasable;
mod free;
mod grow;
mod keep_logs;
mod occupants;
mod prepare;
mod quarantine;
mod reincarnate;
mod release;
mod remove_members;
mod resize;
mod restart;
mod shrink;
mod start_cells;
mod stop_cells;
mod subject;
mod unquarantine;
mod verify_active;
mod verify_destroyed;
mod verify_wiped;
mod wipe;

pub use clean::CLEAN;
pub use create::CREATE;
#[cfg(test)]
pub(crate) use create::tests;
pub use occupants::{Obstacle, Occupants, find_interruption, find_obstacle, is_staying, occupants};
pub use release::{RELEASE, drop_kept, is_for_expiry, is_kept, open_release};
pub use resize::RESIZE;
pub use restart::RESTART;
pub use subject::owned_allocation;
pub(crate) use subject::{attested, is_exclusive, path};
