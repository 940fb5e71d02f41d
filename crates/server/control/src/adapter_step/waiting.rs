//! Adapters that wait for work at this server, and their wake-ups.
//!
//! A step queued by this server's engine wakes its adapter at once. For steps of other replicas, expired leases and
//! instances due for a reconcile, one periodic query serves all waiting adapters. A query per waiting adapter was rejected:
//! it multiplies the load for the same answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_ids::ServiceAccountId;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Platform;

/// Poll interval for queued steps.
const LOOK: Duration = Duration::from_millis(150);
/// Number of polls between two polls for due reconciles.
const SCHEDULE: u32 = 4;
/// Minimum interval between two recorded heartbeats of an adapter.
const SEEN: SignedDuration = SignedDuration::from_secs(5);
/// Maximum number of remembered adapters. Beyond it the cache is cleared, which costs one extra heartbeat write per adapter.
const REMEMBERED: usize = 10_000;

struct Waiting {
    notify: Arc<Notify>,
    count: usize,
}

/// Adapters that wait for work here, and the time of each adapter's last recorded heartbeat.
#[derive(Default)]
pub(crate) struct Leases {
    waiting: Mutex<HashMap<ServiceAccountId, Waiting>>,
    /// Notified when an adapter begins to wait.
    entered: Notify,
    seen: Mutex<HashMap<(ServiceAccountId, String), Timestamp>>,
}

/// A waiting adapter's registration; released on drop, also when the adapter disconnects.
pub(super) struct MemberGroup<'l> {
    leases: &'l Leases,
    account: ServiceAccountId,
    pub(super) notify: Arc<Notify>,
}

impl Drop for MemberGroup<'_> {
    fn drop(&mut self) {
        let mut waiting = self.leases.lock();
        if let Some(here) = waiting.get_mut(&self.account) {
            here.count -= 1;
            if here.count == 0 {
                waiting.remove(&self.account);
            }
        }
    }
}

impl Leases {
    fn lock(&self) -> parking_lot::MutexGuard<'_, HashMap<ServiceAccountId, Waiting>> {
        self.waiting.lock()
    }

    pub(super) fn enter(&self, account: ServiceAccountId) -> MemberGroup<'_> {
        let mut waiting = self.lock();
        let here =
            waiting.entry(account).or_insert_with(|| Waiting { notify: Arc::new(Notify::new()), count: 0 });
        here.count += 1;
        let notify = here.notify.clone();
        drop(waiting);
        self.entered.notify_one();
        MemberGroup { leases: self, account, notify }
    }

    /// Wakes the adapters of this account at once, instead of at the next poll.
    pub(crate) fn wake(&self, account: ServiceAccountId) {
        if let Some(here) = self.lock().get(&account) {
            here.notify.notify_waiters();
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Reports whether this adapter's heartbeat is due to be recorded.
    pub(super) fn is_news(&self, account: ServiceAccountId, name: &str, now: Timestamp) -> bool {
        let mut seen = self.seen.lock();
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        let key = (account, name.to_owned());
        let recent = seen.get(&key).is_some_and(|last| now < *last + SEEN);
        if !recent {
            seen.insert(key, now);
        }
        !recent
    }
}

impl Platform {
    /// Wakes adapters until dropped; idles while none waits.
    pub async fn run_leases(self: Arc<Self>) {
        let mut looks = 0_u32;
        loop {
            if self.leases.is_empty() {
                self.leases.entered.notified().await;
            }
            tokio::time::sleep(LOOK).await;
            looks = looks.wrapping_add(1);
            let now = self.env.now();
            let mut accounts = self.store.adapter_step_accounts_waiting(now).await;
            if looks.is_multiple_of(SCHEDULE)
                && let (Ok(all), Ok(due)) = (&mut accounts, self.store.instance_reconcile_accounts(now).await)
            {
                all.extend(due);
            }
            match accounts {
                Ok(accounts) => accounts.into_iter().for_each(|account| self.leases.wake(account)),
                Err(error) => tracing::debug!(%error, "waiting steps could not be read; retrying"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;

    use super::*;

    #[test]
    fn an_adapter_is_news_at_most_once_in_five_seconds() {
        let (env, leases) = (Env::for_tests(1), Leases::default());
        let (account, other): (ServiceAccountId, ServiceAccountId) = (env.id(), env.id());
        let now = env.now();
        assert!(leases.is_news(account, "a", now));
        assert!(!leases.is_news(account, "a", now + SignedDuration::from_secs(4)));
        assert!(leases.is_news(account, "b", now) && leases.is_news(other, "a", now));
        assert!(leases.is_news(account, "a", now + SignedDuration::from_secs(5)));
    }

    #[test]
    fn a_seat_is_given_up_when_it_is_dropped() {
        let (env, leases) = (Env::for_tests(1), Leases::default());
        let account = env.id();
        let (one, two) = (leases.enter(account), leases.enter(account));
        drop(one);
        assert!(!leases.is_empty());
        drop(two);
        assert!(leases.is_empty());
    }
}
