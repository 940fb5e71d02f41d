//! Injected faults and delays of a simulated node. All randomness comes from one seed.

use std::time::Duration;

use muster_ids::{Entropy as _, SeededEntropy};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Kinds of faults and their rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Odds {
    /// Minimum and maximum duration of a task.
    pub latency: (Duration, Duration),
    /// Fraction of tasks that fail definitely.
    pub fail: f64,
    /// Fraction of wipes that leave everything in place, which only an inspection finds.
    pub wipe_fail: f64,
    /// Maximum delay between two polls.
    pub heartbeat_jitter: Duration,
    /// The status of cells cannot be read, so that the node confirms none.
    pub unobservable: bool,
}

impl Default for Odds {
    fn default() -> Self {
        let none = Duration::ZERO;
        Self { latency: (none, none), fail: 0.0, wipe_fail: 0.0, heartbeat_jitter: none, unobservable: false }
    }
}

/// Faults of one node.
#[derive(Debug)]
pub struct Faults {
    odds: Mutex<Odds>,
    chance: SeededEntropy,
}

impl Faults {
    /// Seeds the faults by node: the faults of one node do not depend on the actions of others.
    pub fn new(odds: Odds, seed: u64, node: &str) -> Self {
        let mixed = Sha256::new().chain_update(seed.to_be_bytes()).chain_update(node).finalize();
        let seed = mixed.first_chunk::<8>().map_or(seed, |bytes| u64::from_be_bytes(*bytes));
        Self { odds: Mutex::new(odds), chance: SeededEntropy::new(seed) }
    }

    /// Changes the failure rate of tasks.
    pub fn set_fail(&self, fail: f64) {
        self.odds.lock().fail = fail;
    }

    /// Changes whether the status of cells can be read.
    pub fn set_unobservable(&self, unobservable: bool) {
        self.odds.lock().unobservable = unobservable;
    }

    pub(crate) fn is_unobservable(&self) -> bool {
        self.odds().unobservable
    }

    pub(crate) fn fails(&self) -> bool {
        let fail = self.odds().fail;
        fail > 0.0 && self.draw() < fail
    }

    pub(crate) fn wipe_fails(&self) -> bool {
        let fail = self.odds().wipe_fail;
        fail > 0.0 && self.draw() < fail
    }

    pub(crate) fn latency(&self) -> Duration {
        let (least, most) = self.odds().latency;
        if most.is_zero() { most } else { least + most.saturating_sub(least).mul_f64(self.draw()) }
    }

    pub(crate) fn heartbeat_jitter(&self) -> Duration {
        let most = self.odds().heartbeat_jitter;
        if most.is_zero() { most } else { most.mul_f64(self.draw()) }
    }

    fn odds(&self) -> Odds {
        self.odds.lock().clone()
    }

    /// Returns a random number in [0, 1).
    pub(crate) fn draw(&self) -> f64 {
        let mut bytes = [0; 8];
        self.chance.fill(&mut bytes);
        (u64::from_be_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Faults, Odds};

    #[test]
    fn the_same_seed_gives_the_same_faults_and_nodes_differ() {
        let odds = Odds { fail: 0.5, ..Odds::default() };
        let drawn = |seed, node| {
            let faults = Faults::new(odds.clone(), seed, node);
            (0..64).map(|_| faults.fails()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1, "a"), drawn(1, "a"));
        assert_ne!(drawn(1, "a"), drawn(1, "b"));
        assert_ne!(drawn(1, "a"), drawn(2, "a"));
    }

    #[test]
    fn latency_stays_between_its_bounds() {
        let bounds = (Duration::from_millis(5), Duration::from_millis(9));
        let faults = Faults::new(Odds { latency: bounds, ..Odds::default() }, 1, "a");
        for _ in 0..100 {
            let latency = faults.latency();
            assert!(latency >= bounds.0 && latency <= bounds.1, "{latency:?}");
        }
        assert!(!faults.fails() && !faults.wipe_fails());
    }
}
