//! The counts and the report of a run.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::sealed::Sealed;

/// The counts of one run, shared by all clients of the one thread.
#[derive(Default)]
pub(crate) struct Tally {
    latencies: RefCell<Vec<u32>>,
    failures: RefCell<BTreeMap<u16, u64>>,
    first_failure: RefCell<Option<String>>,
    pub(crate) bytes: Cell<u64>,
    pub(crate) sent: Cell<u64>,
}

impl Tally {
    pub(crate) fn failed(&self, status: u16, what: String) {
        *self.failures.borrow_mut().entry(status).or_default() += 1;
        self.first_failure.borrow_mut().get_or_insert(what);
    }

    pub(crate) fn done(&self, taken: Duration) {
        self.latencies.borrow_mut().push(u32::try_from(taken.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn add_bytes(&self, count: u64) {
        self.bytes.set(self.bytes.get() + count);
    }

    /// Prints everything as one JSON object; nothing in it needs escaping.
    pub(crate) fn report(&self, clients: usize, seconds: f64, sealed: Option<&Sealed>) {
        let mut sorted = self.latencies.take();
        sorted.sort_unstable();
        let failures = self.failures.borrow();
        let listed: Vec<String> =
            failures.iter().map(|(status, count)| format!("\"{status}\": {count}")).collect();
        let quantile = |share| f64::from(percentile(&sorted, share)) / 1000.0;
        println!(
            "{{\"clients\": {}, \"seconds\": {seconds:.6}, \"ok\": {}, \"non2xx\": {}, \"failures\": {{{}}}, \
             \"per_second\": {:.3}, \"bytes\": {}, \"latency_ms\": {{\"p50\": {}, \"p90\": {}, \"p99\": {}, \"max\": {}}}, \
             \"sealed\": {}}}",
            clients,
            sorted.len(),
            failures.values().sum::<u64>(),
            listed.join(", "),
            sorted.len() as f64 / seconds,
            self.bytes.get(),
            quantile(0.5),
            quantile(0.9),
            quantile(0.99),
            quantile(1.0),
            sealed.map_or_else(|| "null".to_owned(), Sealed::json),
        );
        if let Some(what) = self.first_failure.borrow().as_ref() {
            eprintln!("bench-load: the first failure: {what}");
        }
    }
}

/// The value below which `share` of the sorted values lie.
pub(crate) fn percentile(sorted: &[u32], share: f64) -> u32 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

/// When a client must stop asking.
pub(crate) struct Until {
    pub(crate) at: Instant,
    pub(crate) requests: Option<u64>,
}

impl Until {
    pub(crate) fn reached(&self, sent: u64) -> bool {
        self.requests.map_or_else(|| Instant::now() >= self.at, |most| sent >= most)
    }
}
