//! How long things may take. Arguments, so that tests can be impatient.

use jiff::{SignedDuration, Timestamp};

/// The limits of waits. Each wait ends: in its result, in another try, or parked.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a leased operation is ours without a word.
    pub lease: SignedDuration,
    /// How long an agent has for a task before it is asked again.
    pub task: SignedDuration,
    /// How long making an allocation may take once it has a node; waiting in line comes on top.
    pub create: SignedDuration,
    /// How long giving one back may take before somebody has to look.
    pub release: SignedDuration,
    /// How long undoing may take before somebody has to look.
    pub undo: SignedDuration,
    /// How long something may stay parked before operators are told.
    pub escalate: SignedDuration,
    /// How often a wait looks again by itself.
    pub look: SignedDuration,
    /// How old a node's last heartbeat may be before the node counts as silent: placement passes it over, long before it is
    /// declared lost. See [`Timing::silent_after`].
    pub silent: SignedDuration,
}

impl Timing {
    /// Two and a half heartbeats: the one that is due, one that was missed, and the half in which heartbeats are written down.
    pub fn silent_after(heartbeat: SignedDuration) -> SignedDuration {
        heartbeat * 5 / 2
    }

    /// The time since which a node must have sent a heartbeat to be chosen.
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
