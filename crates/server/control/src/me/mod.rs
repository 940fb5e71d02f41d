//! The caller's own identity and permissions.

mod can_i;
mod whoami;

pub use can_i::can_i;
pub use whoami::whoami;
