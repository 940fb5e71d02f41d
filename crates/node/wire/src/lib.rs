//! The wire between node agents and the server, apart from both.
//!
//! Its operations are data, as those of the public API are (`muster_api`), and for the same reasons; but it is a contract of
//! its own, with its own version, because agents are updated node by node and the public API knows nothing of them.

mod document;
mod operation;
mod problem;

pub mod cell;
pub mod difference;
pub mod inventory;
pub mod stream;
pub mod task;
pub mod wire;

pub use document::{VERSION, document};
pub use operation::{OPERATIONS, Operation, STREAM, Upgrade};
pub use problem::Problem;
