//! Publisher keys: the keys with which signatures count in a project.
//!
//! A key is never deleted, only revoked: its signatures must stay distinguishable from those of unknown keys, and its name
//! must not be reused for another key.

mod create;
mod revoke;

pub use create::create;
pub use revoke::revoke;
