//! Status of the platform.

mod get;

pub use get::{disk_fault, get};
