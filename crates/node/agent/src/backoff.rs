//! How long to wait before trying again: longer each time, and never the same for two agents.

use std::time::Duration;

use muster_ids::World;

const FIRST: Duration = Duration::from_millis(200);
/// So that a node is back within ten seconds of a network that is.
const LONGEST: Duration = Duration::from_secs(4);

/// The pauses between attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    world: World,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(world: &World) -> Self {
        Self { world: world.clone(), next: FIRST }
    }

    /// It worked: the next pause is a short one again.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// Waits. When a server comes back, a thousand agents must not come at the same moment, so each pause is between
    /// half and the whole of what is due.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.due()).await;
    }

    fn due(&mut self) -> Duration {
        let due = self.next;
        self.next = (due * 2).min(LONGEST);
        due / 2 + due.mul_f64(fraction(&self.world) / 2.0)
    }
}

/// A number from 0 up to, but without, 1.
pub(crate) fn fraction(world: &World) -> f64 {
    (u64::from_be_bytes(world.bytes()) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_ids::World;

    use super::{Backoff, LONGEST};

    #[test]
    fn pauses_grow_from_a_fifth_of_a_second_to_ten_and_differ() {
        let mut backoff = Backoff::new(&World::for_tests(1));
        let pauses: Vec<Duration> = (0..12).map(|_| backoff.due()).collect();
        assert!(pauses[0] >= Duration::from_millis(100) && pauses[0] < Duration::from_millis(200));
        assert!(pauses.iter().all(|pause| *pause <= LONGEST));
        assert!(pauses[10] >= LONGEST / 2 && pauses[10] != pauses[11]);
        backoff.reset();
        assert!(backoff.due() < Duration::from_millis(200));
    }
}
