//! Adapters: the processes that give apps their meaning.

mod list;

pub use list::list;
