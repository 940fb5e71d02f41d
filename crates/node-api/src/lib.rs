//! The wire between node agents and the server, apart from both.

pub mod difference;
pub mod inventory;
pub mod task;
pub mod wire;
