//! The wire between node agents and the server, apart from both.

pub mod inventory;
