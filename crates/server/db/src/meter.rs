//! Measures how long transactions are held outside the database. A transaction that waits for anything else, or computes for
//! long, keeps others waiting; the tests fail on one held for 50 ms.
//!
//! The load of the machine does not count. Where the thread ran through, its CPU time counts; where it waited, the time less
//! that in which it was only waiting for a CPU. Wall time would fail tests on a busy machine without a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The longest time that this process held a transaction outside the database. Off until a test starts it.
#[derive(Debug, Default)]
pub struct Meter {
    started: AtomicBool,
    longest: AtomicU64,
}

impl Meter {
    /// Starts to measure the transactions that begin from now on.
    pub fn start(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    /// Returns the longest time so far.
    pub fn longest_held(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

/// Time of one transaction outside the database, recorded when this is dropped.
pub(crate) struct Held {
    meter: Arc<Meter>,
    total: Duration,
    /// Begin of the current stretch; none while a statement runs.
    since: Option<Mark>,
}

impl Held {
    /// Begins outside the database.
    pub(crate) fn begin(meter: Arc<Meter>) -> Self {
        let since = meter.started.load(Ordering::Relaxed).then(Mark::now);
        Self { meter, total: Duration::ZERO, since }
    }

    /// Ends before COMMIT or ROLLBACK.
    pub(crate) fn end(self) {
        drop(self);
    }

    /// A statement begins.
    pub(crate) fn enter_database(&mut self) {
        if let Some(since) = self.since.take() {
            self.total += stretch(&since, &Mark::now());
        }
    }

    /// A statement has ended.
    pub(crate) fn leave_database(&mut self) {
        self.since = self.meter.started.load(Ordering::Relaxed).then(Mark::now);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.enter_database();
        let micros = u64::try_from(self.total.as_micros()).unwrap_or(u64::MAX);
        self.meter.longest.fetch_max(micros, Ordering::Relaxed);
    }
}

/// A moment of a thread.
struct Mark {
    at: Instant,
    thread: ThreadId,
    /// Unknown on a kernel without this accounting; then wall time counts.
    kernel: Option<Accounting>,
}

/// The kernel's accounting of a thread.
#[derive(Clone, Copy)]
struct Accounting {
    on_cpu: Duration,
    /// Time in which it was ready and had no CPU.
    ready: Duration,
    /// How often it waited for anything else.
    waits: u64,
}

impl Mark {
    fn now() -> Self {
        Self { at: Instant::now(), thread: std::thread::current().id(), kernel: Accounting::of_this_thread() }
    }
}

impl Accounting {
    fn of_this_thread() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        let mut words = text.split_whitespace().map_while(|word| word.parse().ok().map(Duration::from_nanos));
        let (on_cpu, ready) = (words.next()?, words.next()?);
        let text = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        let waits = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some(Self { on_cpu, ready, waits: waits.trim().parse().ok()? })
    }
}

/// Returns the time between two moments that counts.
fn stretch(from: &Mark, to: &Mark) -> Duration {
    let wall = to.at.duration_since(from.at);
    // A task that moved to another thread has waited.
    let (Some(before), Some(after)) = (from.kernel, to.kernel) else { return wall };
    if from.thread != to.thread {
        return wall;
    }
    match before.waits == after.waits {
        true => after.on_cpu.saturating_sub(before.on_cpu),
        false => wall.saturating_sub(after.ready.saturating_sub(before.ready)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(wall: u64, on_cpu: u64, ready: u64, waits: u64) -> u64 {
        let from = Mark::now();
        let kernel = from.kernel.map(|kernel| Accounting {
            on_cpu: kernel.on_cpu + Duration::from_millis(on_cpu),
            ready: kernel.ready + Duration::from_millis(ready),
            waits: kernel.waits + waits,
        });
        let to = Mark { at: from.at + Duration::from_millis(wall), kernel, ..from };
        u64::try_from(stretch(&from, &to).as_millis()).unwrap()
    }

    #[test]
    fn a_thread_without_a_cpu_holds_nothing_and_one_that_waits_or_computes_does() {
        assert_eq!(held(100, 2, 98, 0), 2, "the machine was busy");
        assert_eq!(held(100, 2, 10, 0), 2, "and so was the machine below it");
        assert_eq!(held(100, 100, 0, 0), 100, "it computed");
        assert_eq!(held(100, 1, 0, 1), 100, "it waited");
        assert_eq!(held(100, 1, 60, 3), 40, "it waited, on a busy machine");
    }

    #[test]
    fn a_task_that_comes_back_on_another_thread_has_waited() {
        let from = Mark::now();
        let to = std::thread::spawn(Mark::now).join().unwrap();
        assert_eq!(stretch(&from, &to), to.at.duration_since(from.at));
    }

    #[test]
    fn the_kernel_accounts_for_what_a_thread_does() {
        let from = Mark::now();
        std::thread::sleep(Duration::from_millis(60));
        assert!(stretch(&from, &Mark::now()) >= Duration::from_millis(60));
        let (from, mut sum) = (Mark::now(), 0_u64);
        while stretch(&from, &Mark::now()) < Duration::from_millis(60) {
            sum = sum.wrapping_add(std::hint::black_box(1));
            assert!(from.at.elapsed() < Duration::from_secs(30), "computing does not count");
        }
    }
}
