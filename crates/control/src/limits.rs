//! Fair shares: so many requests a second for each actor and tenant, and so many of a tenant at once.
//!
//! Counted per server and in memory: a limit is a courtesy among tenants, not a quota, and one that costs a write to the
//! database with every request would be the heaviest request of all.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Whether a request may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Proceed,
    /// Not before this much time.
    Wait(Duration),
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

/// The limits of a server.
pub struct Limits {
    actor_rate: f64,
    tenant_rate: f64,
    in_flight_most: u32,
    buckets: Mutex<HashMap<String, Bucket>>,
    in_flight: Mutex<HashMap<String, u32>>,
    resting: Mutex<HashMap<String, u32>>,
}

/// So many requests of a tenant may wait for something to happen, without counting as under way.
const MOST_RESTING: u32 = 4096;

/// A second's worth of requests may come at once.
const BURST_SECONDS: f64 = 1.0;
const MOST_BUCKETS: usize = 50_000;

impl Limits {
    pub(crate) fn new(actor_rate: u32, tenant_rate: u32, in_flight_most: u32) -> Self {
        Self {
            actor_rate: f64::from(actor_rate),
            tenant_rate: f64::from(tenant_rate),
            in_flight_most,
            buckets: Mutex::default(),
            in_flight: Mutex::default(),
            resting: Mutex::default(),
        }
    }

    /// Takes one request from the actor's share and from its tenant's.
    pub fn take(&self, actor: &str, tenant: Option<&str>, now: Instant) -> Verdict {
        let actor = self.take_from(format!("actor {actor}"), self.actor_rate, now);
        match (actor, tenant) {
            (Verdict::Proceed, Some(tenant)) => {
                self.take_from(format!("tenant {tenant}"), self.tenant_rate, now)
            }
            (verdict, _) => verdict,
        }
    }

    /// Takes one from a share of its own, such as the attempts to log in as somebody.
    pub fn take_from(&self, share: String, rate: f64, now: Instant) -> Verdict {
        let mut buckets = self.buckets.lock().expect("no holder of this lock can panic");
        if buckets.len() >= MOST_BUCKETS {
            buckets.retain(|_, bucket| now.duration_since(bucket.at) < Duration::from_secs(60));
        }
        let full = (rate * BURST_SECONDS).max(1.0);
        let bucket = buckets.entry(share).or_insert(Bucket { tokens: full, at: now });
        let elapsed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * rate).min(full);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            Verdict::Proceed
        } else {
            Verdict::Wait(Duration::from_secs_f64(((1.0 - bucket.tokens) / rate).clamp(0.001, 3600.0)))
        }
    }

    /// Counts a request of a tenant as under way; `None` when too many already are.
    pub fn enter(&self, tenant: Option<&str>) -> Option<InFlight<'_>> {
        let name = tenant.unwrap_or("platform").to_owned();
        let mut in_flight = self.in_flight.lock().expect("no holder of this lock can panic");
        let count = in_flight.entry(name.clone()).or_default();
        if *count >= self.in_flight_most {
            return None;
        }
        *count += 1;
        Some(InFlight { limits: self, name })
    }
}

impl Limits {
    /// A request that is under way does nothing but wait from now on, until this is dropped. Waits that counted as work would
    /// starve what they wait for.
    pub(crate) fn rest(&self, tenant: Option<&str>) -> Option<Resting<'_>> {
        let name = tenant.unwrap_or("platform").to_owned();
        let mut resting = self.resting.lock().expect("no holder of this lock can panic");
        let mut in_flight = self.in_flight.lock().expect("no holder of this lock can panic");
        let working = in_flight.get_mut(&name).filter(|count| **count > 0)?;
        let count = resting.entry(name.clone()).or_default();
        if *count >= MOST_RESTING {
            return None;
        }
        *count += 1;
        *working -= 1;
        drop((resting, in_flight));
        Some(Resting { limits: self, name })
    }
}

/// A request that waits.
pub(crate) struct Resting<'l> {
    limits: &'l Limits,
    name: String,
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        let mut resting = self.limits.resting.lock().expect("no holder of this lock can panic");
        if let Some(count) = resting.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                resting.remove(&self.name);
            }
        }
        let mut in_flight = self.limits.in_flight.lock().expect("no holder of this lock can panic");
        *in_flight.entry(self.name.clone()).or_default() += 1;
    }
}

/// A request that is under way.
pub struct InFlight<'l> {
    limits: &'l Limits,
    name: String,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.limits.in_flight.lock().expect("no holder of this lock can panic");
        if let Some(count) = in_flight.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                in_flight.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_leaves_room_for_who_works() {
        let limits = Limits::new(1, 1, 1);
        let waits = limits.enter(Some("t")).unwrap();
        assert!(limits.enter(Some("t")).is_none());
        let resting = limits.rest(Some("t")).unwrap();
        let works = limits.enter(Some("t")).unwrap();
        assert!(limits.enter(Some("t")).is_none());
        drop(resting);
        drop(works);
        assert!(limits.enter(Some("t")).is_none(), "it is at work again");
        drop(waits);
        assert!(limits.enter(Some("t")).is_some());
    }

    #[test]
    fn a_share_runs_out_and_refills() {
        let limits = Limits::new(2, 100, 1);
        let start = Instant::now();
        assert_eq!(limits.take("a", None, start), Verdict::Proceed);
        assert_eq!(limits.take("a", None, start), Verdict::Proceed);
        assert!(matches!(limits.take("a", None, start), Verdict::Wait(_)));
        assert_eq!(limits.take("b", None, start), Verdict::Proceed, "another actor has its own share");
        assert_eq!(limits.take("a", None, start + Duration::from_millis(600)), Verdict::Proceed);
    }

    #[test]
    fn a_tenant_has_so_many_at_once() {
        let limits = Limits::new(1, 1, 1);
        let first = limits.enter(Some("t"));
        assert!(first.is_some());
        assert!(limits.enter(Some("t")).is_none());
        assert!(limits.enter(Some("u")).is_some());
        drop(first);
        assert!(limits.enter(Some("t")).is_some());
    }
}
