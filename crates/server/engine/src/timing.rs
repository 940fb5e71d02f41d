//! Time limits, as arguments so that tests can shorten them.

use jiff::{SignedDuration, Timestamp};

/// Time limits. Every wait ends: with its result, in a retry, or blocked.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Lease of an operation without renewal.
    pub lease: SignedDuration,
    /// Time for an agent to finish a task before it is queued again.
    pub task: SignedDuration,
    /// Time to create an allocation once it has a node; time in the queue is extra.
    pub create: SignedDuration,
    /// Time to release an allocation before the operation is blocked.
    pub release: SignedDuration,
    /// Time for compensation before the operation is blocked.
    pub undo: SignedDuration,
    /// Time in the blocked state before operators are alerted.
    pub escalate: SignedDuration,
    /// Interval at which a waiting step is checked.
    pub look: SignedDuration,
    /// Age of the last heartbeat at which a node counts as silent: placement skips it, long before it is declared lost.
    /// Computed by [`Timing::silent_after`].
    pub silent: SignedDuration,
}

impl Timing {
    /// Returns two and a half heartbeats: the one due, one missed, and half of one for the batching of heartbeats.
    pub fn silent_after(heartbeat: SignedDuration) -> SignedDuration {
        heartbeat * 5 / 2
    }

    /// Returns the oldest last heartbeat with which a node can be chosen.
    pub fn heard_since(&self, now: Timestamp) -> Timestamp {
        now - self.silent
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: SignedDuration::from_secs(15),
            task: SignedDuration::from_secs(60),
            create: SignedDuration::from_mins(15),
            release: SignedDuration::from_mins(30),
            undo: SignedDuration::from_mins(15),
            escalate: SignedDuration::from_hours(1),
            look: SignedDuration::from_secs(5),
            silent: Timing::silent_after(SignedDuration::from_secs(10)),
        }
    }
}
