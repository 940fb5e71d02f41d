//! The agent protocol over real TLS, on real databases.

mod again;
pub(crate) mod agent;
mod crowd;
mod joins;
mod loss;
mod missing;
pub(crate) mod refusals;
mod work;
