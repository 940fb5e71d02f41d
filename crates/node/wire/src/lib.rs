//! The wire protocol between node agents and the server, independent of both.
//!
//! Its endpoints are data, for the same reasons as those of the public API (`muster_api`). It is a contract of its own, with
//! its own version, because agents are updated node by node and the public API does not expose them.

mod document;
mod endpoint;
mod problem;

pub mod act;
pub mod cell;
pub mod difference;
pub mod inventory;
pub mod stream;
pub mod task;
pub mod wire;

pub use document::{VERSION, document};
pub use endpoint::{ENDPOINTS, Endpoint, STREAM, Upgrade};
pub use problem::Problem;
