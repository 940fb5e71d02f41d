//! Who am I, and what may I do.

mod can_i;
mod whoami;

pub use can_i::can_i;
pub use whoami::whoami;
