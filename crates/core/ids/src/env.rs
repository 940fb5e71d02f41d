//! Time and randomness as values. `clippy.toml` bans the ambient ones everywhere but here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};

use crate::TypedId;

/// A source of time.
pub trait Clock: Send + Sync {
    /// Returns the current time in whole microseconds, which both databases store without loss.
    fn now(&self) -> Timestamp;
}

/// A source of unpredictable bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes`.
    fn fill(&self, bytes: &mut [u8]);
}

/// The system clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place where the ambient clock is read")]
    fn now(&self) -> Timestamp {
        to_micros(Timestamp::now())
    }
}

/// A clock that stands still until a test advances it.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// Creates a clock at `start`.
    pub fn at(start: Timestamp) -> Self {
        Self(Mutex::new(to_micros(start)))
    }

    /// Moves it forward.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock();
        *now += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

fn to_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).expect("a timestamp cut to microseconds is in range")
}

/// A generator for secrets as well as for ids: ChaCha, seeded and reseeded by the operating system, one for each thread.
/// Calling the system each time would cost five system calls for every command.
#[derive(Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the one place where ambient randomness enters")]
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// Repeatable bytes for tests.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<rand::rngs::StdRng>);

impl SeededEntropy {
    /// Creates the sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(rand::rngs::StdRng::seed_from_u64(seed)))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill_bytes(bytes);
    }
}

/// Time and randomness together, as injected.
#[derive(Clone)]
pub struct Env {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Microsecond of the newest id.
    newest: Arc<AtomicU64>,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Env")
    }
}

impl Env {
    /// The system clock and entropy.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(SystemEntropy))
    }

    /// Combines the given parts.
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { clock, entropy, newest: Arc::default() }
    }

    /// A fixed instant and a seeded generator.
    pub fn for_tests(seed: u64) -> Self {
        let start = Timestamp::from_second(1_790_000_000).expect("a constant in range");
        Self::new(Arc::new(ManualClock::at(start)), Arc::new(SeededEntropy::new(seed)))
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy.fill(&mut bytes);
        bytes
    }

    /// Returns a new id: UUIDv7, so that ids sort by creation time.
    pub fn id<I: TypedId>(&self) -> I {
        I::from_uuid(self.uuid())
    }

    /// Returns a new UUIDv7 for rows without a typed id.
    ///
    /// The twelve bits after the milliseconds hold the fraction of the millisecond (RFC 9562, method 3), so that consecutive
    /// commands of one caller keep their order when they are sealed. Each is at least a microsecond after the previous one,
    /// so that ids created together list in creation order.
    pub fn uuid(&self) -> uuid::Uuid {
        let now = u64::try_from(self.now().as_microsecond()).unwrap_or(0);
        let after = |newest: u64| now.max(newest + 1);
        let before =
            self.newest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |newest| Some(after(newest)));
        let micros = before.map_or(now, after);
        let mut random: [u8; 10] = self.bytes();
        let fraction = ((micros % 1000) * 4096 / 1000) as u16;
        random[..2].copy_from_slice(&fraction.to_be_bytes());
        uuid::Builder::from_unix_timestamp_millis(micros / 1000, &random).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_in_the_order_in_which_they_were_made_though_no_time_passes() {
        let env = Env::for_tests(7);
        let other = env.clone();
        let made: Vec<uuid::Uuid> =
            (0..5_000).map(|n| if n % 2 == 0 { env.uuid() } else { other.uuid() }).collect();
        assert!(made.is_sorted_by(|one, next| one < next));
    }
}
