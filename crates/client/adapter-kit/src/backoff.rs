//! Exponential backoff with jitter.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(15);

/// Random source with an explicit seed, so that a run can be reproduced.
#[derive(Debug, Clone)]
pub(crate) struct Chance(Arc<Mutex<StdRng>>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Returns a number in [0, 1).
    fn fraction(&self) -> f64 {
        let mut source = self.0.lock();
        (source.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a duration between half of `due` and `due`: a thousand adapters that lost the same server must not
    /// reconnect at once.
    pub(crate) fn about(&self, due: Duration) -> Duration {
        due / 2 + due.mul_f64(self.fraction() / 2.0)
    }
}

/// Delays between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    chance: Chance,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(chance: &Chance) -> Self {
        Self { chance: chance.clone(), next: FIRST }
    }

    /// Resets the delay after a success.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Waits, at least as long as the platform requested.
    pub(crate) async fn pause(&mut self, asked_for: Option<Duration>) {
        tokio::time::sleep(self.due().max(asked_for.unwrap_or_default())).await;
    }

    fn due(&mut self) -> Duration {
        let due = self.next;
        self.next = (due * 2).min(LONGEST);
        self.chance.about(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_differ_and_start_again() {
        let mut backoff = Backoff::new(&Chance::new(1));
        let pauses: Vec<Duration> = (0..12).map(|_| backoff.due()).collect();
        assert!(pauses[0] >= FIRST / 2 && pauses[0] < FIRST, "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= LONGEST));
        assert!(pauses[10] >= LONGEST / 2 && pauses[10] != pauses[11]);
        backoff.reset();
        assert!(backoff.due() < FIRST);
        let again: Vec<Duration> = {
            let mut backoff = Backoff::new(&Chance::new(1));
            (0..12).map(|_| backoff.due()).collect()
        };
        assert_eq!(pauses, again, "a seed gives the same pauses");
    }
}
