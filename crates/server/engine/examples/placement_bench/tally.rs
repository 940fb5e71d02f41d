//! Measurements, printed as one line of JSON.

use std::time::Duration;

use serde_json::json;

/// Measurements of one run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Duration of each request, in microseconds.
    pub(crate) taken: Vec<f64>,
    /// Number of placed requests.
    pub(crate) placed: usize,
    /// Number of requests without room.
    pub(crate) refused: usize,
    /// Number of lost races, planned again.
    pub(crate) again: usize,
}

impl Tally {
    pub(crate) fn note(&mut self, taken: Duration, placed: bool) {
        self.taken.push(taken.as_secs_f64() * 1e6);
        if placed { self.placed += 1 } else { self.refused += 1 }
    }

    pub(crate) fn add(&mut self, other: Tally) {
        self.taken.extend(other.taken);
        self.placed += other.placed;
        self.refused += other.refused;
        self.again += other.again;
    }

    /// Prints it. `counted` is the number of requests that the rate is computed from.
    pub(crate) fn print(mut self, counted: usize, seconds: f64) {
        self.taken.sort_unstable_by(f64::total_cmp);
        let last = self.taken.len().saturating_sub(1);
        let quantile = |share: f64| {
            let index = (self.taken.len() as f64 * share) as usize;
            self.taken.get(index.min(last)).map(|taken| (taken * 10.0).round() / 10.0)
        };
        let (p50, p90, p99, max) = (quantile(0.5), quantile(0.9), quantile(0.99), quantile(1.0));
        let line = json!({
            "ok": counted, "seconds": seconds, "per_second": counted as f64 / seconds,
            "placed": self.placed, "refused": self.refused, "again": self.again,
            "latency_us": {"p50": p50, "p90": p90, "p99": p99, "max": max},
        });
        println!("{line}");
    }
}
