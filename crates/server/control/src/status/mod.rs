//! Status of the platform.

mod get;

pub use get::get;
