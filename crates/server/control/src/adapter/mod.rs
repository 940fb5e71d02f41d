//! Adapters: the processes that implement app-specific operations.

mod list;

pub use list::list;
