//! Memory of answers that their callers have not read yet.
//!
//! A caller's share may hold as many bytes as are free for all others, so one share takes at most half, two at most a third
//! each, and there is always room for another. A fixed limit per share was rejected: it is either too small for one busy
//! tenant or too large for many.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Limits, Share};

/// Answers up to this size do not count: the number of connections bounds their memory, and a tenant whose large answers wait
/// to be read still gets small ones.
const SMALL_ANSWER: u64 = 16 << 10;

/// Bytes held by each share.
#[derive(Debug)]
pub(super) struct Unread {
    capacity: u64,
    held: Mutex<HeldBytes>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    total: u64,
    of_share: HashMap<Share, u64>,
}

impl HeldBytes {
    /// Reports whether a share may hold so many bytes more. One that holds nothing may: its caller reads its answers.
    fn has_room(&self, capacity: u64, share: &Share, bytes: u64) -> bool {
        let held = self.of_share.get(share).copied().unwrap_or_default();
        held == 0 || held + bytes <= capacity.saturating_sub(self.total)
    }
}

impl Unread {
    pub(super) fn new(capacity: u64) -> Arc<Self> {
        Arc::new(Self { capacity, held: Mutex::default() })
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, HeldBytes> {
        self.held.lock()
    }
}

/// Memory of an answer, or of the buffers of a streaming one.
#[derive(Debug)]
pub struct UnreadBytes {
    unread: Arc<Unread>,
    share: Share,
    bytes: u64,
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.unread.lock();
        held.total = held.total.saturating_sub(self.bytes);
        if let Some(of_share) = held.of_share.get_mut(&self.share) {
            *of_share = of_share.saturating_sub(self.bytes);
            if *of_share == 0 {
                held.of_share.remove(&self.share);
            }
        }
    }
}

impl Limits {
    /// Reports whether a caller may make a request whose answer cannot be refused.
    pub fn has_room(&self, share: &Share) -> bool {
        self.unread.lock().has_room(self.unread.capacity, share, 0)
    }

    /// Counts an answer until the returned guard is dropped; returns `None` when its share holds too much unread.
    pub fn hold(&self, share: &Share, bytes: usize) -> Option<UnreadBytes> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes <= SMALL_ANSWER {
            return Some(UnreadBytes { unread: self.unread.clone(), share: share.clone(), bytes: 0 });
        }
        let mut held = self.unread.lock();
        held.has_room(self.unread.capacity, share, bytes).then(|| self.counted(&mut held, share, bytes))
    }

    /// Counts an answer that cannot be refused, because its request had an effect that would be lost with it.
    pub fn hold_anyway(&self, share: &Share, bytes: usize) -> UnreadBytes {
        self.counted(&mut self.unread.lock(), share, u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    fn counted(&self, held: &mut HeldBytes, share: &Share, bytes: u64) -> UnreadBytes {
        held.total = held.total.saturating_add(bytes);
        let of_share = held.of_share.entry(share.clone()).or_default();
        *of_share = of_share.saturating_add(bytes);
        UnreadBytes { unread: self.unread.clone(), share: share.clone(), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Rates;

    fn tenant() -> Share {
        Share::Tenant(muster_ids::Env::system().id())
    }

    const KIB: usize = 1 << 10;

    fn limits(kib: u64) -> Limits {
        Limits::new(Rates { unread_bytes: kib << 10, ..Rates::default() })
    }

    #[test]
    fn a_share_holds_what_is_free_for_others_at_most_and_leaves_room_for_another() {
        let limits = limits(1200);
        let fill = |share: &Share| {
            std::iter::from_fn(|| limits.hold(share, 100 * KIB)).collect::<Vec<UnreadBytes>>()
        };
        let (first, second, third) = (tenant(), tenant(), tenant());
        let all = fill(&first);
        assert_eq!(all.len(), 6, "half");
        let others = fill(&second);
        assert_eq!(others.len(), 3, "half of the rest");
        assert!(limits.hold(&third, 100 * KIB).is_some(), "there is room for a third");
        assert!(limits.hold(&first, 16 * KIB).is_some(), "small answers are always given");
        drop(all);
        assert_eq!(fill(&first).len(), 5, "more, as the other holds less");
        drop(others);
        assert_eq!(limits.unread.lock().total, 0);
        assert!(limits.unread.lock().of_share.is_empty());
    }

    #[test]
    fn a_caller_that_reads_gets_an_answer_of_any_size_and_an_effect_is_always_answered() {
        let limits = limits(100);
        let share = tenant();
        let large = limits.hold(&share, 1000 * KIB).expect("it holds nothing else");
        assert!(limits.hold(&share, 17 * KIB).is_none());
        assert!(!limits.has_room(&share));
        let effect = limits.hold_anyway(&share, 40 * KIB);
        drop(large);
        assert!(limits.has_room(&share));
        drop(effect);
    }
}
