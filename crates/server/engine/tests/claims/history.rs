//! What was done to each slot, and when: the history that `search` judges.

use std::collections::BTreeMap;
use std::time::Instant;

use muster_ids::{AllocationId, SlotId};

/// What was done to a slot. A slot is a lock: one allocation has it, or nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// An allocation got it.
    Claim(AllocationId),
    /// An allocation gave it back.
    Release(AllocationId),
    /// Somebody looked, and saw who had it.
    Saw(Option<AllocationId>),
}

/// One deed, by whom, and between which two moments it must have happened. Only what happened is in here: a claim that
/// failed was rolled back, and says nothing about the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) worker: usize,
    pub(crate) slot: SlotId,
    pub(crate) deed: Deed,
    /// Nanoseconds on the clock that all workers share.
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
}

/// The clock that all workers share. The machine's monotonic one: a history is only as good as the order of its times.
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

/// The history of each slot by itself: slots are judged one by one, because a lock is linearizable if each lock is.
pub(crate) fn by_slot(events: impl IntoIterator<Item = Event>) -> BTreeMap<SlotId, Vec<Event>> {
    let mut slots = BTreeMap::<SlotId, Vec<Event>>::new();
    for event in events {
        slots.entry(event.slot).or_default().push(event);
    }
    slots
}
