//! A project's own secrets. Content is handled in zeroized memory, sealed and dropped; events, audit entries, responses and
//! logs never contain any of it, not even its hash.

mod content;
mod create;
mod delete;
mod named;
mod rotate;

pub use create::create;
pub use delete::delete;
pub(crate) use named::{Named, named};
pub use rotate::rotate;
