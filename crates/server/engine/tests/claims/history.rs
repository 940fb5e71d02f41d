//! Operations on each slot with their times: the history that `search` evaluates.

use std::collections::BTreeMap;
use std::time::Instant;

use muster_ids::{AllocationId, SlotId};

/// Operation on a slot. A slot is a lock: held by one allocation, or free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// An allocation acquired it.
    Claim(AllocationId),
    /// An allocation released it.
    Release(AllocationId),
    /// A reader observed its holder.
    Saw(Option<AllocationId>),
}

/// One operation, its worker, and the interval in which it took effect. Only successful operations are recorded: a failed
/// claim was rolled back and carries no information about the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) worker: usize,
    pub(crate) slot: SlotId,
    pub(crate) deed: Deed,
    /// Nanoseconds on the clock shared by all workers.
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
}

/// The clock shared by all workers. Monotonic: a history is only as good as the order of its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Splits the history by slot: each lock is checked on its own, because linearizability is local.
pub(crate) fn by_slot(events: impl IntoIterator<Item = Event>) -> BTreeMap<SlotId, Vec<Event>> {
    let mut slots = BTreeMap::<SlotId, Vec<Event>>::new();
    for event in events {
        slots.entry(event.slot).or_default().push(event);
    }
    slots
}
