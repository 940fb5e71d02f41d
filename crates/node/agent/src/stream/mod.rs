//! Streams: a terminal, a command, a log or a file between somebody and a cell.
//!
//! A task says which; the agent dials the server that asked ([`socket`]), has the driver begin it inside the cell
//! ([`Inside`]), and carries bytes between the two ([`pump`]) until either ends. Streams have no lane: one that lasts for
//! hours must hold up neither its allocation's other tasks nor the report of its own, which is that it was joined.

mod descriptor;
mod inside;
mod join;
mod process;
mod pump;
mod socket;
mod terminal;
mod toy;

pub use inside::{Begun, Download, Inside, Upload};
pub(crate) use join::{Streams, streaming};
pub use process::Process;
pub(crate) use toy::Toy;
