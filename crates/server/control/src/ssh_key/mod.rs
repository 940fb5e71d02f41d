//! Users' SSH keys, for the cells of a project that accept them.

mod create;
mod delete;
mod expire;
mod public_key;

pub use create::create;
pub use delete::delete;
