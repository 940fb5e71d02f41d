//! Networks between cells: bridges, VXLAN between nodes, names, and rules that deny by default.
//!
//! Each network has a *router namespace* of its own on every node where it has cells: in it lie a bridge, the cells'
//! ports, a VXLAN device to the other nodes and, only if a cell declared it, an uplink to the node. Two networks never
//! share a link, a routing table or a rule, so they are apart by construction. In the node's own namespace there are
//! one UDP socket, one table named after us and the uplinks; nothing of the host's own is changed.
//!
//! What is attached where is written down before the kernel is asked for it and forgotten after the kernel let go of
//! it, and every step looks before it acts: whatever was interrupted is repeated and ends in the same state.

mod address;
mod apply;
mod attach;
mod command;
mod detach;
mod error;
mod fabric;
mod forwarding;
mod hosts;
mod inside;
mod look;
mod namespace;
mod order;
mod record;
mod router;
mod rules;
mod settings;
mod survey;
mod uplink;

pub use attach::Attach;
pub use command::PROGRAMS;
pub use error::NetworkError;
pub use fabric::Fabric;
pub use look::Look;
pub use settings::{POINTS, Reach, Settings};
pub use survey::{Found, Owner, Thing, Where};
