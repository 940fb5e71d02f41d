//! Streams: a terminal, a command, a log or a file between a user and a cell.
//!
//! For each task the agent dials the requesting server ([`socket`]), has the driver start the work inside the cell
//! ([`Inside`]), and copies bytes between the two ([`pump`]) until either ends. Streams have no queue: one that lasts for
//! hours must block neither its allocation's other tasks nor its own report, which is that it was connected.

mod descriptor;
mod inside;
mod join;
mod process;
mod pump;
mod socket;
mod terminal;

pub use inside::{Download, Inside, StartedProcess, Upload};
pub(crate) use join::{StreamTask, Streams, streaming};
pub use process::Process;
