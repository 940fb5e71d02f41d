//! Large answers that are being made. The rows, the values and the text of one take several times its size, so a tenant makes
//! few at once and its others wait their turn.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use super::{Limits, Share};

/// Large answers that one share, and all together, make at once.
const PER_SHARE: usize = 2;
const IN_ALL: usize = 8;

pub(super) struct LargeAnswers {
    of_share: Arc<Mutex<HashMap<Share, Arc<Semaphore>>>>,
    all: Arc<Semaphore>,
}

impl Default for LargeAnswers {
    fn default() -> Self {
        Self { of_share: Arc::default(), all: Arc::new(Semaphore::new(IN_ALL)) }
    }
}

/// Slot of a large answer.
#[derive(Debug)]
pub(crate) struct LargeAnswer {
    of_share: Arc<Mutex<HashMap<Share, Arc<Semaphore>>>>,
    share: Share,
    slots: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

impl Drop for LargeAnswer {
    fn drop(&mut self) {
        self.slots = None;
        let mut of_share = self.of_share.lock();
        // Further references are of requests that have a slot or wait for one.
        if of_share.get(&self.share).is_some_and(|slots| Arc::strong_count(slots) == 1) {
            of_share.remove(&self.share);
        }
    }
}

/// Slot of a request's large answer, held until the request's context is dropped.
#[derive(Debug, Clone, Default)]
pub struct AnswerSlot(Arc<OnceCell<LargeAnswer>>);

impl AnswerSlot {
    /// Waits for a slot, unless the request has one.
    pub(crate) async fn acquire(&self, limits: &Limits, share: &Share) {
        self.0.get_or_init(|| limits.large_answer(share)).await;
    }
}

impl Limits {
    async fn large_answer(&self, share: &Share) -> LargeAnswer {
        let large = &self.large;
        let slots = {
            let mut of_share = large.of_share.lock();
            of_share.entry(share.clone()).or_insert_with(|| Arc::new(Semaphore::new(PER_SHARE))).clone()
        };
        // A share waits for its own slots first, so that its requests do not queue for those of all.
        let closed = "these semaphores are never closed";
        let own = slots.acquire_owned().await.expect(closed);
        let one_of_all = large.all.clone().acquire_owned().await.expect(closed);
        LargeAnswer { of_share: large.of_share.clone(), share: share.clone(), slots: Some((own, one_of_all)) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limits::Rates;

    #[tokio::test]
    async fn a_share_makes_two_at_once_and_the_next_waits_without_holding_up_others() {
        let limits = Limits::new(Rates::default());
        let [first, second] = [0, 1].map(|_| Share::Tenant(muster_ids::Env::system().id()));
        let held = [limits.large_answer(&first).await, limits.large_answer(&first).await];
        let wait = Duration::from_millis(50);
        let third = AnswerSlot::default();
        assert!(tokio::time::timeout(wait, third.acquire(&limits, &first)).await.is_err());
        let other = AnswerSlot::default();
        other.acquire(&limits, &second).await;
        other.acquire(&limits, &second).await;
        drop(held);
        third.acquire(&limits, &first).await;
        assert_eq!(limits.large.all.available_permits(), IN_ALL - 2);
        drop((third, other));
        assert_eq!(limits.large.all.available_permits(), IN_ALL);
        assert!(limits.large.of_share.lock().is_empty());
    }
}
