//! Browser sessions.

mod create;
mod delete;

pub use create::create;
pub use delete::delete;

/// Name of the session cookie.
pub const COOKIE: &str = "muster_session";
