//! Browser sessions.

mod create;
mod delete;

pub use create::create;
pub use delete::delete;

/// The cookie that carries a session.
pub const COOKIE: &str = "muster_session";
