//! Connection slots of a listener: in total, by address, and by the certificate of a node. No address and no node has more than are
//! still free, so that a few of them cannot take all.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_control::Share;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Admission, NodeAdmission, PeerCertificate};

/// Reserve connections per address: a flood from one address must not fill the reserve.
const RESERVE_PER_ADDRESS: u32 = 4;

/// Slots of a listener.
pub(super) struct Slots {
    open: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    per_address: u32,
    proxies: Arc<[IpAddr]>,
    counts: Counts,
    nodes: Option<NodeSlots>,
}

/// Slots of a listener whose clients have certificates. Until a client has presented one, it takes a slot of a small pool,
/// so that idle connections of strangers keep no agent out.
struct NodeSlots {
    limits: NodeAdmission,
    handshakes: Arc<Semaphore>,
    /// The part of these that addresses without a known node may use, however many addresses there are.
    strangers: Arc<Semaphore>,
    joining: Arc<Semaphore>,
    /// Addresses from which a node has presented its certificate, with the last time.
    known: Mutex<HashMap<Share, Instant>>,
}

/// Maximum number of known addresses.
const MOST_KNOWN: usize = 20_000;
/// An address is known for so long.
const KNOWN_FOR: Duration = Duration::from_secs(24 * 3600);

impl NodeSlots {
    fn is_known(&self, address: IpAddr) -> bool {
        let known = self.known.lock();
        known.get(&Share::of_address(Some(address))).is_some_and(|last| last.elapsed() < KNOWN_FOR)
    }

    fn remember(&self, address: IpAddr) {
        let mut known = self.known.lock();
        if known.len() >= MOST_KNOWN {
            known.retain(|_, last| last.elapsed() < KNOWN_FOR);
        }
        if known.len() < MOST_KNOWN {
            known.insert(Share::of_address(Some(address)), Instant::now());
        }
    }
}

/// Counter that a connection belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Counter {
    /// Connections of an address.
    Open,
    /// Reserve connections of an address.
    Reserve,
    /// TLS handshakes of an address, on a listener for nodes.
    Handshake,
    /// Connections of an address without a certificate, on a listener for nodes.
    Joining,
    /// Connections with the certificate of one node.
    Node,
}

type Counts = Arc<Mutex<HashMap<(Share, Counter), u32>>>;

/// Slot of a connection.
#[derive(Debug)]
pub(crate) struct Slot {
    _slot: OwnedSemaphorePermit,
    /// Slot of a stranger's handshake.
    _stranger: Option<OwnedSemaphorePermit>,
    _counted: Option<Counted>,
    /// Whether it belongs to the reserve.
    pub(super) reserved: bool,
}

/// Slot of a connection in the limit of its address or node.
#[derive(Debug)]
struct Counted {
    counts: Counts,
    key: (Share, Counter),
}

impl Counted {
    /// Takes one of `most`, and of those fewer than are free, including the one that is taken.
    fn take(counts: &Counts, key: (Share, Counter), most: u32, free: usize) -> Option<Self> {
        let mut held = counts.lock();
        let count = held.get(&key).copied().unwrap_or_default();
        let exceeds_free = count > 0 && usize::try_from(count).is_ok_and(|count| count >= free);
        if count >= most || exceeds_free {
            return None;
        }
        held.insert(key.clone(), count + 1);
        Some(Self { counts: counts.clone(), key })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

fn of_address(address: IpAddr, counter: Counter) -> (Share, Counter) {
    (Share::of_address(Some(address)), counter)
}

impl Slots {
    pub(super) fn new(admission: &Admission) -> Arc<Self> {
        Arc::new(Self {
            open: Arc::new(Semaphore::new(admission.connections)),
            reserve: Arc::new(Semaphore::new(admission.reserve)),
            per_address: admission.per_address,
            proxies: admission.proxies.clone(),
            counts: Counts::default(),
            nodes: admission.nodes.map(|limits| NodeSlots {
                limits,
                handshakes: Arc::new(Semaphore::new(limits.handshakes)),
                strangers: Arc::new(Semaphore::new((limits.handshakes / 2).max(1))),
                known: Mutex::default(),
                joining: Arc::new(Semaphore::new(limits.joining)),
            }),
        })
    }

    /// Returns the next connection once a slot is free; `None` if it was turned away.
    pub(super) async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, Slot)> {
        let (slot, reserved) = match &self.nodes {
            Some(nodes) => (nodes.handshakes.clone().acquire_owned().await.ok()?, false),
            None => tokio::select! {
                biased;
                slot = self.open.clone().acquire_owned() => (slot.ok()?, false),
                slot = self.reserve.clone().acquire_owned() => (slot.ok()?, true),
            },
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely out of file descriptors: accepting again immediately would spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                return None;
            }
        };
        let _ = stream.set_nodelay(true);
        let slot = match &self.nodes {
            Some(nodes) => self.handshake(nodes, peer.ip(), slot),
            None => self.place(peer.ip(), slot, reserved),
        };
        match slot {
            Some(slot) => Some((stream, peer, slot)),
            None => {
                tracing::debug!(address = %peer.ip(), "too many connections from this address");
                None
            }
        }
    }

    fn handshake(&self, nodes: &NodeSlots, address: IpAddr, slot: OwnedSemaphorePermit) -> Option<Slot> {
        let key = of_address(address, Counter::Handshake);
        // Strangers beyond their part are turned away at once, so that known nodes do not wait behind them.
        let (pool, stranger) = match nodes.is_known(address) {
            true => (&nodes.handshakes, None),
            false => (&nodes.strangers, Some(nodes.strangers.clone().try_acquire_owned().ok()?)),
        };
        let free = pool.available_permits() + 1;
        let counted = Counted::take(&self.counts, key, nodes.limits.handshakes_per_address, free)?;
        Some(Slot { _slot: slot, _stranger: stranger, _counted: Some(counted), reserved: false })
    }

    fn place(&self, address: IpAddr, slot: OwnedSemaphorePermit, reserved: bool) -> Option<Slot> {
        // A regular slot may have been freed while this reserved one waited for a connection.
        let (slot, reserved) = match reserved.then(|| self.open.clone().try_acquire_owned()) {
            Some(Ok(free)) => (free, false),
            _ => (slot, reserved),
        };
        if !reserved {
            if self.proxies.contains(&address) {
                return Some(Slot { _slot: slot, _stranger: None, _counted: None, reserved });
            }
            let key = of_address(address, Counter::Open);
            let free = self.open.available_permits() + 1;
            if let Some(counted) = Counted::take(&self.counts, key, self.per_address, free) {
                return Some(Slot { _slot: slot, _stranger: None, _counted: Some(counted), reserved });
            }
        }
        let slot = if reserved { slot } else { self.reserve.clone().try_acquire_owned().ok()? };
        let (key, free) = (of_address(address, Counter::Reserve), self.reserve.available_permits() + 1);
        let counted = Counted::take(&self.counts, key, RESERVE_PER_ADDRESS, free)?;
        Some(Slot { _slot: slot, _stranger: None, _counted: Some(counted), reserved: true })
    }

    /// Exchanges the slot of a handshake for that of its node, or of a machine that joins. Every other listener's connection
    /// keeps its slot.
    pub(super) async fn admit(
        &self,
        slot: Slot,
        address: IpAddr,
        certificate: Option<&PeerCertificate>,
    ) -> Option<Slot> {
        let Some(nodes) = &self.nodes else { return Some(slot) };
        let node = certificate.and_then(|certificate| muster_keys::identity(&certificate.0));
        let (semaphore, key, most) = match node {
            Some(identity) => {
                nodes.remember(address);
                (&self.open, (Share::Node(identity.node), Counter::Node), nodes.limits.per_node)
            }
            None => {
                let key = of_address(address, Counter::Joining);
                (&nodes.joining, key, nodes.limits.joining_per_address)
            }
        };
        let counted = Counted::take(&self.counts, key, most, semaphore.available_permits())?;
        // The handshake's slot is held meanwhile, so that connections wait to be accepted while all slots are in use.
        let acquire = tokio::time::timeout(nodes.limits.timeout, semaphore.clone().acquire_owned());
        let acquired = acquire.await.ok()?.ok()?;
        Some(Slot { _slot: acquired, _stranger: None, _counted: Some(counted), reserved: false })
    }
}
