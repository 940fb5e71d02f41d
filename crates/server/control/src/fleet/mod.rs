//! The agents' side of the server: joining, being heard, fetching work and reporting on it, and what it means when a node
//! is not heard any more.
//!
//! These are machine operations: fenced by session, incarnation and generation instead of an idempotency key, and in the
//! audit only when something came of them. What this module keeps in memory may be lost with the server: who waits in a
//! poll, and who was heard since the last time that was written down.

mod address;
mod admit;
mod heartbeat;
mod hello;
mod inventory;
mod join;
mod loss;
mod observe;
mod poll;
mod polls;
mod renew;
mod report;
mod secret;
mod slots;
mod tell;
mod wanted;

use std::collections::HashSet;
use std::sync::Mutex;

use jiff::Timestamp;
use muster_ids::NodeId;
use tokio::sync::{Notify, OnceCell};

pub use admit::{Admitted, admit};
pub use hello::hello;
pub use inventory::inventory;
pub use join::join;
pub use loss::{Verdict, verdicts};
pub use observe::observe;
pub use poll::poll;
pub use renew::renew;
pub use report::report;
pub use secret::secret;

use crate::authority::Authority;
use polls::Polls;

/// What a server keeps in mind of the fleet.
#[derive(Default)]
pub struct Fleet {
    /// Wakes the engine of this server: an agent reported on a task, and its operation is due. One permit is kept, so an
    /// engine that was busy meanwhile does not miss it.
    pub operations: Notify,
    polls: Polls,
    /// Who was heard since the last flush.
    seen: Mutex<HashSet<NodeId>>,
    /// Whose agents confirmed the status of their cells since then.
    confirmed: Mutex<HashSet<NodeId>>,
    /// When it last could not be written down who was heard.
    deaf_at: Mutex<Option<Timestamp>>,
    pub(crate) authority: OnceCell<Authority>,
}

impl Fleet {
    /// Has the polls of a node's agent look at once, instead of when the next look is due: a task was queued for it, or its
    /// standing has changed. Other replicas notice by themselves, within 150 ms and a second.
    pub fn wake(&self, node: NodeId) {
        self.polls.wake(node);
    }
}
