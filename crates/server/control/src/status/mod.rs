//! The platform at one look.

mod get;

pub use get::get;
