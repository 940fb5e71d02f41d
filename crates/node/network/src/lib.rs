//! Networks between cells: bridges, VXLAN between nodes, host names, and rules that deny by default.
//!
//! Each network has its own *router namespace* on every node where it has cells. It contains a bridge, the cells' ports, a
//! VXLAN device to the other nodes and, only if a cell declared it, an uplink to the node. Two networks never share a link,
//! a routing table or a rule, so they are isolated by construction. The node's own namespace has one UDP socket, one table
//! of ours and the uplinks; nothing of the host's own is changed.
//!
//! Attachments are recorded before the kernel's state is created and forgotten after it is removed, and every step checks
//! before it acts: an interrupted step is repeated and ends in the same state.

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
pub use survey::{Found, NetworkResource, Owner, Where};
