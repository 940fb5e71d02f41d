//! Fair shares: so many requests a second for each actor and tenant, so many of a tenant at once, and so many open streams.
//!
//! Counted per server and in memory: a limit is a courtesy among tenants, not a quota, and one that costs a write to the
//! database with every request would be the heaviest request of all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_ids::TenantId;

use crate::authn::Authenticated;

/// Whether a request may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Proceed,
    /// Not before this much time.
    Wait(Duration),
}

/// Whose share a request counts in. Callers without a credential never share one with operators: they would lock them out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Share {
    /// Callers without a valid credential, by network address.
    Address(String),
    /// The people who run the platform.
    Operators,
    /// The people and service accounts of a tenant.
    Tenant(TenantId),
    /// The adapters of a publisher's tenant, in all projects together: more entitlements do not make a larger share, and a
    /// publisher's haste does not lock the consumer's people out.
    Publisher(TenantId),
    /// A person without a tenant who is no operator.
    Actor(String),
}

impl Share {
    /// The share of an authenticated caller.
    pub fn of_actor(actor: &Authenticated) -> Self {
        match (actor.publisher, actor.principal.tenant()) {
            (Some(publisher), _) => Self::Publisher(publisher),
            (None, Some(tenant)) => Self::Tenant(tenant),
            (None, None) if actor.is_operator() => Self::Operators,
            (None, None) => Self::Actor(actor.principal.id()),
        }
    }

    /// The share of a caller that is known by its address alone. An IPv6 subscriber has a /64, so that is what counts.
    pub fn of_address(address: Option<IpAddr>) -> Self {
        Self::Address(match address {
            None => "unknown".to_owned(),
            Some(IpAddr::V4(v4)) => v4.to_string(),
            Some(IpAddr::V6(v6)) => match v6.to_ipv4_mapped() {
                Some(v4) => v4.to_string(),
                None => {
                    let [a, b, c, d, ..] = v6.segments();
                    format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
                }
            },
        })
    }
}

/// The numbers of a server.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Requests per second and actor.
    pub actor: u32,
    /// Requests per second and tenant.
    pub tenant: u32,
    /// Requests per second and address without a valid credential.
    pub address: u32,
    /// Requests of one tenant that may be under way at once.
    pub tenant_in_flight: u32,
    /// The same for an address without a valid credential.
    pub address_in_flight: u32,
    /// Event streams that one actor may have open at once.
    pub streams_per_actor: u32,
    /// Event streams that one tenant may have open at once.
    pub streams_per_tenant: u32,
    /// Downloads and exports that one tenant may have open at once.
    pub downloads_per_tenant: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            actor: 200,
            tenant: 1000,
            address: 50,
            tenant_in_flight: 64,
            address_in_flight: 16,
            streams_per_actor: 32,
            streams_per_tenant: 256,
            downloads_per_tenant: 256,
        }
    }
}

/// An answer that goes on after its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Open {
    /// An event stream.
    Events,
    /// A download or an export.
    Download,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

/// How many of each kind a key has.
type Counts<K> = Mutex<HashMap<K, u32>>;

/// The limits of a server.
pub struct Limits {
    rates: Rates,
    buckets: Mutex<HashMap<String, Bucket>>,
    in_flight: Counts<Share>,
    resting: Counts<Share>,
    bodies: Counts<Share>,
    open: Arc<Counts<String>>,
}

/// So many requests of a tenant may wait for something to happen, without counting as under way. Far fewer than a server has
/// connections, so that one tenant's waits do not take them all.
const MOST_RESTING: u32 = 512;

/// A second's worth of requests may come at once.
const BURST_SECONDS: f64 = 1.0;
const MOST_BUCKETS: usize = 50_000;

impl Limits {
    /// Limits with these numbers.
    pub fn new(rates: Rates) -> Self {
        Self {
            rates,
            buckets: Mutex::default(),
            in_flight: Mutex::default(),
            resting: Mutex::default(),
            bodies: Mutex::default(),
            open: Arc::default(),
        }
    }

    /// Takes one request from the actor's share and from its tenant's.
    pub fn take(&self, actor: &str, share: &Share, now: Instant) -> Verdict {
        if let Share::Address(address) = share {
            return self.take_from(format!("address {address}"), f64::from(self.rates.address), now);
        }
        let actor = self.take_from(format!("actor {actor}"), f64::from(self.rates.actor), now);
        match (actor, share) {
            (Verdict::Proceed, Share::Tenant(tenant)) => {
                self.take_from(format!("tenant {tenant}"), f64::from(self.rates.tenant), now)
            }
            (Verdict::Proceed, Share::Publisher(tenant)) => {
                self.take_from(format!("publisher {tenant}"), f64::from(self.rates.tenant), now)
            }
            (verdict, _) => verdict,
        }
    }

    /// Requests per second of one address without a valid credential.
    pub fn address_rate(&self) -> f64 {
        f64::from(self.rates.address)
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

    fn most_in_flight(&self, share: &Share) -> u32 {
        match share {
            Share::Address(_) => self.rates.address_in_flight,
            _ => self.rates.tenant_in_flight,
        }
    }

    /// Counts a request as under way; `None` when too many of its share already are. A request enters when its body has
    /// arrived: a slow client must not hold a place that others need.
    pub fn enter(&self, share: &Share) -> Option<InFlight<'_>> {
        count(&self.in_flight, share, self.most_in_flight(share))?;
        Some(InFlight { counts: &self.in_flight, share: share.clone() })
    }

    /// Counts a body that takes memory while it arrives; `None` when too many of its share already do.
    pub fn large_body(&self, share: &Share) -> Option<InFlight<'_>> {
        count(&self.bodies, share, (self.most_in_flight(share) / 4).max(1))?;
        Some(InFlight { counts: &self.bodies, share: share.clone() })
    }

    /// Counts an answer that goes on after its headers, until what this gives is dropped; `None` when the actor or the tenant
    /// has too many.
    pub fn open(&self, actor: &str, share: &Share, kind: Open) -> Option<Opened> {
        let (per_actor, per_tenant) = match kind {
            Open::Events => (self.rates.streams_per_actor, self.rates.streams_per_tenant),
            Open::Download => (self.rates.downloads_per_tenant, self.rates.downloads_per_tenant),
        };
        let keys = [format!("{kind:?} actor {actor}"), format!("{kind:?} {share:?}")];
        let mut open = self.open.lock().expect("no holder of this lock can panic");
        let has_room = |key: &String, most: u32| open.get(key).is_none_or(|count| *count < most);
        if !has_room(&keys[0], per_actor) || !has_room(&keys[1], per_tenant) {
            return None;
        }
        for key in &keys {
            *open.entry(key.clone()).or_default() += 1;
        }
        Some(Opened { counts: self.open.clone(), keys })
    }

    /// A request that is under way does nothing but wait from now on, until this is dropped. Waits that counted as work would
    /// starve what they wait for.
    pub(crate) fn rest(&self, share: &Share) -> Option<Resting<'_>> {
        let mut resting = self.resting.lock().expect("no holder of this lock can panic");
        let mut in_flight = self.in_flight.lock().expect("no holder of this lock can panic");
        let working = in_flight.get_mut(share).filter(|count| **count > 0)?;
        let count = resting.entry(share.clone()).or_default();
        if *count >= MOST_RESTING {
            return None;
        }
        *count += 1;
        *working -= 1;
        drop((resting, in_flight));
        Some(Resting { limits: self, share: share.clone() })
    }
}

fn count<K: Clone + Eq + std::hash::Hash>(counts: &Counts<K>, key: &K, most: u32) -> Option<()> {
    let mut counts = counts.lock().expect("no holder of this lock can panic");
    let count = counts.entry(key.clone()).or_default();
    if *count >= most {
        return None;
    }
    *count += 1;
    Some(())
}

fn uncount<K: Eq + std::hash::Hash>(counts: &Counts<K>, key: &K) {
    let mut counts = counts.lock().expect("no holder of this lock can panic");
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A request that waits.
pub(crate) struct Resting<'l> {
    limits: &'l Limits,
    share: Share,
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        uncount(&self.limits.resting, &self.share);
        let mut in_flight = self.limits.in_flight.lock().expect("no holder of this lock can panic");
        *in_flight.entry(self.share.clone()).or_default() += 1;
    }
}

/// A request that is under way, or a body that arrives.
pub struct InFlight<'l> {
    counts: &'l Counts<Share>,
    share: Share,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        uncount(self.counts, &self.share);
    }
}

/// An answer that goes on.
#[derive(Debug)]
pub struct Opened {
    counts: Arc<Counts<String>>,
    keys: [String; 2],
}

impl Drop for Opened {
    fn drop(&mut self) {
        for key in &self.keys {
            uncount(&self.counts, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant() -> Share {
        Share::Tenant(muster_ids::World::system().id())
    }

    fn limits(rates: Rates) -> Limits {
        Limits::new(rates)
    }

    #[test]
    fn who_waits_leaves_room_for_who_works() {
        let limits = limits(Rates { tenant_in_flight: 1, ..Rates::default() });
        let t = tenant();
        let waits = limits.enter(&t).unwrap();
        assert!(limits.enter(&t).is_none());
        let resting = limits.rest(&t).unwrap();
        let works = limits.enter(&t).unwrap();
        assert!(limits.enter(&t).is_none());
        drop(resting);
        drop(works);
        assert!(limits.enter(&t).is_none(), "it is at work again");
        drop(waits);
        assert!(limits.enter(&t).is_some());
    }

    #[test]
    fn a_share_runs_out_and_refills() {
        let limits = limits(Rates { actor: 2, tenant: 100, ..Rates::default() });
        let (start, t) = (Instant::now(), tenant());
        assert_eq!(limits.take("a", &t, start), Verdict::Proceed);
        assert_eq!(limits.take("a", &t, start), Verdict::Proceed);
        assert!(matches!(limits.take("a", &t, start), Verdict::Wait(_)));
        assert_eq!(limits.take("b", &t, start), Verdict::Proceed, "another actor has its own share");
        assert_eq!(limits.take("a", &t, start + Duration::from_millis(600)), Verdict::Proceed);
    }

    #[test]
    fn a_tenant_has_so_many_at_once() {
        let limits = limits(Rates { tenant_in_flight: 1, ..Rates::default() });
        let (t, u) = (tenant(), tenant());
        let first = limits.enter(&t);
        assert!(first.is_some());
        assert!(limits.enter(&t).is_none());
        assert!(limits.enter(&u).is_some());
        drop(first);
        assert!(limits.enter(&t).is_some());
    }

    #[test]
    fn strangers_use_up_no_share_but_their_address() {
        let limits = limits(Rates { address: 1, address_in_flight: 1, ..Rates::default() });
        let address = |text: &str| Share::of_address(Some(text.parse().unwrap()));
        let _stranger = limits.enter(&address("2001:db8:1:2::1")).unwrap();
        assert!(limits.enter(&address("2001:db8:1:2:ffff::9")).is_none(), "the same /64");
        assert!(limits.enter(&address("2001:db8:1:3::1")).is_some(), "another /64");
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert!(limits.enter(&Share::Operators).is_some());
        let now = Instant::now();
        assert_eq!(limits.take("", &address("192.0.2.1"), now), Verdict::Proceed);
        assert!(matches!(limits.take("", &address("192.0.2.1"), now), Verdict::Wait(_)));
        assert_eq!(limits.take("usr_o", &Share::Operators, now), Verdict::Proceed);
    }

    #[test]
    fn open_streams_are_counted_per_actor_and_per_tenant_until_they_end() {
        let limits = limits(Rates { streams_per_actor: 1, streams_per_tenant: 2, ..Rates::default() });
        let t = tenant();
        let first = limits.open("a", &t, Open::Events).unwrap();
        assert!(limits.open("a", &t, Open::Events).is_none());
        let _second = limits.open("b", &t, Open::Events).unwrap();
        assert!(limits.open("c", &t, Open::Events).is_none(), "the tenant's are used up");
        assert!(limits.open("c", &t, Open::Download).is_some(), "downloads are counted apart");
        drop(first);
        assert!(limits.open("c", &t, Open::Events).is_some());
    }
}
