//! A whole platform in one process, for tests.
//!
//! None of our own code is mocked: the store is real, on SQLite and on PostgreSQL, and so is HTTP. Only the environment is
//! simulated.

mod client;
mod database;
mod fixture;
mod golden;
mod kit;

pub use client::{Answer, Client};
pub use database::Database;
pub use fixture::{ACTORS, Fixture};
pub use golden::golden;
pub use kit::Kit;
