//! The agents' side of the server: joining, heartbeats, fetching and reporting tasks, and detecting lost nodes.
//!
//! These are machine requests: fenced by session, incarnation and generation instead of an idempotency key, and audited only
//! when they have an effect. The in-memory state of this module may be lost with the server: waiting polls, and heartbeats
//! since the last flush.

mod address;
mod admit;
mod desired;
mod heartbeat;
mod hello;
mod inventory;
mod join;
mod observe;
mod poll;
mod polls;
mod renew;
mod report;
mod secret;
mod slots;
pub mod tell;

use std::collections::HashSet;

use jiff::Timestamp;
use muster_ids::NodeId;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use admit::{Admitted, admit, admit_again};
pub use hello::hello;
pub use inventory::inventory;
pub use join::join;
pub use observe::observe;
pub use poll::poll;
pub use renew::renew;
pub use report::report;
pub use secret::secret;

use polls::Polls;

/// In-memory state of the fleet.
#[derive(Default)]
pub struct Fleet {
    /// Wakes this server's engine: an agent reported on a task, and its operation is due. One permit is stored, so a busy
    /// engine does not miss it.
    pub engine_wake: Notify,
    polls: Polls,
    /// Nodes with a heartbeat since the last flush.
    seen: Mutex<HashSet<NodeId>>,
    /// Nodes that confirmed the status of their cells since the last flush.
    confirmed: Mutex<HashSet<NodeId>>,
    /// Time of the last failed heartbeat write.
    deaf_at: Mutex<Option<Timestamp>>,
}

impl Fleet {
    /// Wakes the polls of a node's agent at once, instead of at the next poll of the database: a task was queued for it, or
    /// its standing changed. Other replicas notice by themselves, within 150 ms and a second.
    pub fn wake(&self, node: NodeId) {
        self.polls.wake(node);
    }
}
