//! Capacity available to a project. Individual nodes are never disclosed.

mod get;
mod outlook;
mod request;
mod shortage;
mod weigh;

pub use get::get;
pub(crate) use shortage::shortage;

pub(crate) use outlook::{PlannedAllocations, foresee, total};
pub(crate) use request::{ensure_possible, with_defaults};
