//! Fair shares: rate limits per actor and tenant, and limits on a tenant's concurrent requests and open streams.
//!
//! Counted per server and in memory: a limit ensures fairness among tenants and is no quota; a database write per request
//! would cost more than the requests themselves.

mod large;
mod unread;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_ids::{NodeId, TenantId};
use parking_lot::Mutex;

use crate::authn::Authenticated;
pub use large::AnswerSlot;
use large::LargeAnswers;
use unread::Unread;
pub use unread::UnreadBytes;

/// Decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateDecision {
    /// Allowed.
    Proceed,
    /// Rejected; retry after this time.
    Wait(Duration),
}

/// The share that a request counts in. Unauthenticated callers never share one with operators: they could lock them out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Share {
    /// Callers without a valid credential, by network address.
    Address(String),
    /// Platform operators.
    Operators,
    /// Users and service accounts of a tenant.
    Tenant(TenantId),
    /// The adapters of a publisher's tenant, in all projects together: more entitlements do not enlarge the share, and a
    /// busy publisher does not lock out the consumer's users.
    Publisher(TenantId),
    /// A user without a tenant that is no operator.
    Actor(String),
    /// The agent of a node, identified by its certificate.
    Node(NodeId),
}

impl Share {
    /// Returns the share of an authenticated caller.
    pub fn of_actor(actor: &Authenticated) -> Self {
        match (actor.publisher, actor.principal.tenant()) {
            (Some(publisher), _) => Self::Publisher(publisher),
            (None, Some(tenant)) => Self::Tenant(tenant),
            (None, None) if actor.is_operator() => Self::Operators,
            (None, None) => Self::Actor(actor.principal.id()),
        }
    }

    /// Returns the share of a caller known only by its address. An IPv6 subscriber has a /64, so that prefix counts.
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

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Requests per second and actor.
    pub actor: u32,
    /// Requests per second and tenant.
    pub tenant: u32,
    /// Requests per second and address without a valid credential.
    pub address: u32,
    /// Concurrent requests of one tenant.
    pub tenant_in_flight: u32,
    /// Concurrent requests of one address without a valid credential.
    pub address_in_flight: u32,
    /// Concurrent event streams of one actor.
    pub streams_per_actor: u32,
    /// Concurrent event streams of one tenant.
    pub streams_per_tenant: u32,
    /// Concurrent downloads and exports of one tenant.
    pub downloads_per_tenant: u32,
    /// Concurrent uploads to the registry of one tenant.
    pub uploads_per_tenant: u32,
    /// Memory for answers that have not been read yet, of all callers.
    pub unread_bytes: u64,
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
            uploads_per_tenant: 256,
            unread_bytes: 128 << 20,
        }
    }
}

/// Kind of a streaming request or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// An event stream.
    Events,
    /// A download or an export.
    Download,
    /// An upload to the registry.
    Upload,
    /// A body that is buffered in memory.
    LargeBody,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

/// Counts by key.
type Counts<K> = Mutex<HashMap<K, u32>>;

/// Rate limiter of a server.
pub struct Limits {
    rates: Rates,
    buckets: Mutex<HashMap<String, Bucket>>,
    in_flight: Counts<Share>,
    resting: Counts<Share>,
    open: Arc<Counts<String>>,
    unread: Arc<Unread>,
    large: LargeAnswers,
}

/// Maximum number of waiting requests per tenant, which do not count as in flight. Far fewer than a server's connections, so
/// that one tenant's waits cannot exhaust them.
const MOST_RESTING: u32 = 512;

/// Large bodies of one node at once. Its agent sends a hello, reports and observations by a connection each.
const LARGE_BODIES_PER_NODE: u32 = 3;

/// Burst size, in seconds of the rate.
const BURST_SECONDS: f64 = 1.0;
const MOST_BUCKETS: usize = 50_000;

impl Limits {
    /// Creates a limiter with these limits.
    pub fn new(rates: Rates) -> Self {
        Self {
            rates,
            buckets: Mutex::default(),
            in_flight: Mutex::default(),
            resting: Mutex::default(),
            open: Arc::default(),
            unread: Unread::new(rates.unread_bytes),
            large: LargeAnswers::default(),
        }
    }

    /// Takes one request from the actor's share and from its tenant's.
    pub fn take(&self, actor: &str, share: &Share, now: Instant) -> RateDecision {
        if let Share::Address(address) = share {
            return self.take_from(format!("address {address}"), f64::from(self.rates.address), now);
        }
        let actor = self.take_from(format!("actor {actor}"), f64::from(self.rates.actor), now);
        match (actor, share) {
            (RateDecision::Proceed, Share::Tenant(tenant)) => {
                self.take_from(format!("tenant {tenant}"), f64::from(self.rates.tenant), now)
            }
            (RateDecision::Proceed, Share::Publisher(tenant)) => {
                self.take_from(format!("publisher {tenant}"), f64::from(self.rates.tenant), now)
            }
            (verdict, _) => verdict,
        }
    }

    /// Returns the requests per second of one address without a valid credential.
    pub fn address_rate(&self) -> f64 {
        f64::from(self.rates.address)
    }

    /// Takes one request from a separate share, such as login attempts for one account.
    pub fn take_from(&self, share: String, rate: f64, now: Instant) -> RateDecision {
        self.take_with_burst(share, rate, (rate * BURST_SECONDS).max(1.0), now)
    }

    /// Likewise, with so many requests at once.
    pub(crate) fn take_with_burst(&self, share: String, rate: f64, full: f64, now: Instant) -> RateDecision {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= MOST_BUCKETS {
            buckets.retain(|_, bucket| now.duration_since(bucket.at) < Duration::from_secs(60));
        }
        let bucket = buckets.entry(share).or_insert(Bucket { tokens: full, at: now });
        let elapsed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.tokens = (bucket.tokens + elapsed * rate).min(full);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            RateDecision::Proceed
        } else {
            RateDecision::Wait(Duration::from_secs_f64(((1.0 - bucket.tokens) / rate).clamp(0.001, 3600.0)))
        }
    }

    /// Returns one request that was taken from a separate share, and did not count after all.
    pub(crate) fn give_back(&self, share: &str) {
        if let Some(bucket) = self.buckets.lock().get_mut(share) {
            bucket.tokens += 1.0;
        }
    }

    fn most_in_flight(&self, share: &Share) -> u32 {
        match share {
            Share::Address(_) => self.rates.address_in_flight,
            _ => self.rates.tenant_in_flight,
        }
    }

    /// Counts a request as in flight; returns `None` when its share has too many. A request enters after its body has
    /// arrived, so that a slow client does not occupy a slot.
    pub fn enter(&self, share: &Share) -> Option<InFlight<'_>> {
        count(&self.in_flight, share, self.most_in_flight(share))?;
        Some(InFlight { counts: &self.in_flight, share: share.clone() })
    }

    /// Returns how many large bodies a share may send at once.
    fn most_bodies(&self, share: &Share) -> u32 {
        match share {
            Share::Node(_) => LARGE_BODIES_PER_NODE,
            _ => (self.most_in_flight(share) / 4).max(1),
        }
    }

    /// Counts a streaming request or response until the returned guard is dropped; returns `None` when the actor or the
    /// tenant has too many.
    pub fn open(&self, actor: &str, share: &Share, kind: StreamKind) -> Option<StreamSlot> {
        let (per_actor, per_tenant) = match kind {
            StreamKind::Events => (self.rates.streams_per_actor, self.rates.streams_per_tenant),
            StreamKind::Download => (self.rates.downloads_per_tenant, self.rates.downloads_per_tenant),
            StreamKind::Upload => {
                (for_one_actor(self.rates.uploads_per_tenant), self.rates.uploads_per_tenant)
            }
            StreamKind::LargeBody => match (self.most_bodies(share), share) {
                (most, Share::Address(_) | Share::Node(_)) => (most, most),
                (most, _) => (for_one_actor(most), most),
            },
        };
        let keys = [format!("{kind:?} {share:?} {actor}"), format!("{kind:?} {share:?}")];
        let mut open = self.open.lock();
        let has_room = |key: &String, most: u32| open.get(key).is_none_or(|count| *count < most);
        if !has_room(&keys[0], per_actor) || !has_room(&keys[1], per_tenant) {
            return None;
        }
        for key in &keys {
            *open.entry(key.clone()).or_default() += 1;
        }
        Some(StreamSlot { counts: self.open.clone(), keys })
    }

    /// Marks an in-flight request as waiting, until the returned guard is dropped. Waits that counted as work would starve
    /// the requests they wait for.
    pub(crate) fn rest(&self, share: &Share) -> Option<Resting<'_>> {
        let mut resting = self.resting.lock();
        let mut in_flight = self.in_flight.lock();
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

/// Returns how many of a tenant's slots one of its actors may take: bodies of one caller that never end leave the rest.
fn for_one_actor(most: u32) -> u32 {
    (most - most / 4).max(1)
}

fn count<K: Clone + Eq + std::hash::Hash>(counts: &Counts<K>, key: &K, most: u32) -> Option<()> {
    let mut counts = counts.lock();
    let count = counts.entry(key.clone()).or_default();
    if *count >= most {
        return None;
    }
    *count += 1;
    Some(())
}

fn uncount<K: Eq + std::hash::Hash>(counts: &Counts<K>, key: &K) {
    let mut counts = counts.lock();
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A waiting request.
pub(crate) struct Resting<'l> {
    limits: &'l Limits,
    share: Share,
}

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        uncount(&self.limits.resting, &self.share);
        let mut in_flight = self.limits.in_flight.lock();
        *in_flight.entry(self.share.clone()).or_default() += 1;
    }
}

/// An in-flight request.
pub struct InFlight<'l> {
    counts: &'l Counts<Share>,
    share: Share,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        uncount(self.counts, &self.share);
    }
}

/// A streaming request or response.
#[derive(Debug)]
pub struct StreamSlot {
    counts: Arc<Counts<String>>,
    keys: [String; 2],
}

impl Drop for StreamSlot {
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
        Share::Tenant(muster_ids::Env::system().id())
    }

    fn limits(rates: Rates) -> Limits {
        Limits::new(rates)
    }

    #[test]
    fn waiting_request_frees_its_slot_for_a_working_one() {
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
        assert_eq!(limits.take("a", &t, start), RateDecision::Proceed);
        assert_eq!(limits.take("a", &t, start), RateDecision::Proceed);
        assert!(matches!(limits.take("a", &t, start), RateDecision::Wait(_)));
        assert_eq!(limits.take("b", &t, start), RateDecision::Proceed, "another actor has its own share");
        assert_eq!(limits.take("a", &t, start + Duration::from_millis(600)), RateDecision::Proceed);
    }

    /// Attack: a publisher's adapters in many projects, or a busy one beside the consumer's own users.
    #[test]
    fn adapters_of_one_publisher_have_one_share_beside_that_of_its_tenant() {
        let limits = limits(Rates {
            actor: 100,
            tenant: 2,
            tenant_in_flight: 1,
            streams_per_tenant: 1,
            ..Rates::default()
        });
        let tenant = muster_ids::Env::system().id();
        let (adapters, users) = (Share::Publisher(tenant), Share::Tenant(tenant));
        let now = Instant::now();
        assert_eq!(limits.take("first", &adapters, now), RateDecision::Proceed);
        assert_eq!(limits.take("second", &adapters, now), RateDecision::Proceed);
        assert!(matches!(limits.take("third", &adapters, now), RateDecision::Wait(_)), "of all adapters");
        assert_eq!(limits.take("user", &users, now), RateDecision::Proceed, "its users have their own");
        let _request = limits.enter(&adapters).unwrap();
        assert!(limits.enter(&adapters).is_none());
        assert!(limits.enter(&users).is_some());
        let _stream = limits.open("first", &adapters, StreamKind::Events).unwrap();
        assert!(limits.open("second", &adapters, StreamKind::Events).is_none());
        assert!(limits.open("user", &users, StreamKind::Events).is_some());
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
        assert_eq!(limits.take("", &address("192.0.2.1"), now), RateDecision::Proceed);
        assert!(matches!(limits.take("", &address("192.0.2.1"), now), RateDecision::Wait(_)));
        assert_eq!(limits.take("usr_o", &Share::Operators, now), RateDecision::Proceed);
    }

    #[test]
    fn open_streams_are_counted_per_actor_and_per_tenant_until_they_end() {
        let limits = limits(Rates { streams_per_actor: 1, streams_per_tenant: 2, ..Rates::default() });
        let t = tenant();
        let first = limits.open("a", &t, StreamKind::Events).unwrap();
        assert!(limits.open("a", &t, StreamKind::Events).is_none());
        let _second = limits.open("b", &t, StreamKind::Events).unwrap();
        assert!(limits.open("c", &t, StreamKind::Events).is_none(), "the tenant's are used up");
        assert!(limits.open("c", &t, StreamKind::Download).is_some(), "downloads are counted apart");
        assert!(limits.open("a", &t, StreamKind::Download).is_some());
        drop(first);
        assert!(limits.open("c", &t, StreamKind::Events).is_some());
    }
    #[test]
    fn bodies_of_one_caller_leave_some_slots_to_the_others_of_its_tenant() {
        let limits = limits(Rates {
            tenant_in_flight: 16,
            uploads_per_tenant: 4,
            address_in_flight: 8,
            ..Rates::default()
        });
        let fill = |actor: &str, share: &Share, kind| {
            std::iter::from_fn(|| limits.open(actor, share, kind)).collect::<Vec<_>>()
        };
        let (t, node) = (tenant(), Share::Node(muster_ids::Env::system().id()));
        for kind in [StreamKind::Upload, StreamKind::LargeBody] {
            let first = fill("a", &t, kind);
            assert_eq!((first.len(), fill("b", &t, kind).len()), (3, 1));
            assert_eq!(fill("a", &tenant(), kind).len(), 3, "another tenant has its own");
        }
        // Callers without a credential are one caller, and a node has few.
        let address = Share::of_address(Some("192.0.2.1".parse().unwrap()));
        assert_eq!(fill("", &address, StreamKind::LargeBody).len(), 2);
        assert_eq!(fill("", &node, StreamKind::LargeBody).len(), 3);
    }
}
