//! Exponential backoff with jitter.

use std::time::Duration;

use muster_ids::Env;

const FIRST: Duration = Duration::from_millis(200);
/// Upper bound, so that a node is back within ten seconds of its network.
const LONGEST: Duration = Duration::from_secs(4);

/// Delays between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    env: Env,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(env: &Env) -> Self {
        Self { env: env.clone(), next: FIRST }
    }

    /// Resets the delay after a success.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Waits for the next delay. The jitter, between half and all of it, keeps a thousand agents from reconnecting at the
    /// same moment when a server returns.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.due()).await;
    }

    fn due(&mut self) -> Duration {
        let due = self.next;
        self.next = (due * 2).min(LONGEST);
        due / 2 + due.mul_f64(fraction(&self.env) / 2.0)
    }
}

/// Returns a random number in [0, 1).
pub(crate) fn fraction(env: &Env) -> f64 {
    (u64::from_be_bytes(env.bytes()) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_ids::Env;

    use super::{Backoff, LONGEST};

    #[test]
    fn pauses_grow_from_a_fifth_of_a_second_to_ten_and_differ() {
        let mut backoff = Backoff::new(&Env::for_tests(1));
        let pauses: Vec<Duration> = (0..12).map(|_| backoff.due()).collect();
        assert!(pauses[0] >= Duration::from_millis(100) && pauses[0] < Duration::from_millis(200));
        assert!(pauses.iter().all(|pause| *pause <= LONGEST));
        assert!(pauses[10] >= LONGEST / 2 && pauses[10] != pauses[11]);
        backoff.reset();
        assert!(backoff.due() < Duration::from_millis(200));
    }
}
