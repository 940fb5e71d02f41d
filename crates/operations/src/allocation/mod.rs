//! The operations on allocations, and their steps, one a file.

mod apply;
mod cells;
mod claim;
mod clean;
mod create;
mod destroy;
mod free;
mod grow;
mod keep_logs;
mod prepare;
mod reincarnate;
mod release;
mod resize;
mod restart;
mod shrink;
mod subject;
mod unquarantine;
mod verify_active;
mod verify_gone;
mod verify_wiped;
mod wipe;

pub use clean::CLEAN;
pub use create::CREATE;
#[cfg(test)]
pub(crate) use create::tests;
pub use release::{RELEASE, open_release};
pub use resize::RESIZE;
pub use restart::RESTART;
pub(crate) use subject::{details, devices, path};
