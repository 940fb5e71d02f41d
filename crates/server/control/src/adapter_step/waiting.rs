//! Which adapters wait for work at this server, and what wakes them.
//!
//! A step that this server's engine queued wakes its adapter at once; for those of other replicas, for leases that lapsed and
//! for instances that are due to be looked at, one read for everybody looks every so often. A read for each waiting adapter was
//! rejected: it is as many times the load for the same answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_ids::ServiceAccountId;
use tokio::sync::Notify;

use crate::Platform;

/// How often to look for steps.
const LOOK: Duration = Duration::from_millis(150);
/// So many such looks are between two at what is due on schedule.
const SCHEDULE: u32 = 4;
/// An adapter is written down as seen at most so often.
const SEEN: SignedDuration = SignedDuration::from_secs(5);
/// So many adapters are remembered; after that the memory starts anew, and each is written down once more than it needs to be.
const REMEMBERED: usize = 10_000;

struct Waiting {
    notify: Arc<Notify>,
    count: usize,
}

/// Adapters that wait for work here, and when each was last written down as seen.
#[derive(Default)]
pub(crate) struct Leases {
    waiting: Mutex<HashMap<ServiceAccountId, Waiting>>,
    /// Somebody has begun to wait.
    entered: Notify,
    seen: Mutex<HashMap<(ServiceAccountId, String), Timestamp>>,
}

/// A place among those who wait; given up when dropped, also when the adapter hangs up.
pub(super) struct Seat<'l> {
    leases: &'l Leases,
    account: ServiceAccountId,
    pub(super) notify: Arc<Notify>,
}

impl Drop for Seat<'_> {
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
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ServiceAccountId, Waiting>> {
        self.waiting.lock().expect("no holder of this lock can panic")
    }

    pub(super) fn enter(&self, account: ServiceAccountId) -> Seat<'_> {
        let mut waiting = self.lock();
        let here =
            waiting.entry(account).or_insert_with(|| Waiting { notify: Arc::new(Notify::new()), count: 0 });
        here.count += 1;
        let notify = here.notify.clone();
        drop(waiting);
        self.entered.notify_one();
        Seat { leases: self, account, notify }
    }

    /// Has the adapters under this account look at once, instead of when the next look is due.
    pub(crate) fn wake(&self, account: ServiceAccountId) {
        if let Some(here) = self.lock().get(&account) {
            here.notify.notify_waiters();
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether it is time to write down that this adapter asked.
    pub(super) fn is_news(&self, account: ServiceAccountId, name: &str, now: Timestamp) -> bool {
        let mut seen = self.seen.lock().expect("no holder of this lock can panic");
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
    /// Wakes adapters until dropped; rests while none waits.
    pub async fn run_leases(self: Arc<Self>) {
        let mut looks = 0_u32;
        loop {
            if self.leases.is_empty() {
                self.leases.entered.notified().await;
            }
            tokio::time::sleep(LOOK).await;
            looks = looks.wrapping_add(1);
            let now = self.world.now();
            let mut accounts = self.store.adapter_step_accounts_waiting(now).await;
            if looks.is_multiple_of(SCHEDULE)
                && let (Ok(all), Ok(due)) = (&mut accounts, self.store.instance_reconcile_accounts(now).await)
            {
                all.extend(due);
            }
            match accounts {
                Ok(accounts) => accounts.into_iter().for_each(|account| self.leases.wake(account)),
                Err(error) => tracing::debug!(%error, "waiting steps are looked for again"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::World;

    use super::*;

    #[test]
    fn an_adapter_is_news_at_most_once_in_five_seconds() {
        let (world, leases) = (World::for_tests(1), Leases::default());
        let (account, other): (ServiceAccountId, ServiceAccountId) = (world.id(), world.id());
        let now = world.now();
        assert!(leases.is_news(account, "a", now));
        assert!(!leases.is_news(account, "a", now + SignedDuration::from_secs(4)));
        assert!(leases.is_news(account, "b", now) && leases.is_news(other, "a", now));
        assert!(leases.is_news(account, "a", now + SignedDuration::from_secs(5)));
    }

    #[test]
    fn a_seat_is_given_up_when_it_is_dropped() {
        let (world, leases) = (World::for_tests(1), Leases::default());
        let account = world.id();
        let (one, two) = (leases.enter(account), leases.enter(account));
        drop(one);
        assert!(!leases.is_empty());
        drop(two);
        assert!(leases.is_empty());
    }
}
