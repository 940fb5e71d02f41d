//! The platform at one look.

mod get;

pub use get::{disk_fault, get};
