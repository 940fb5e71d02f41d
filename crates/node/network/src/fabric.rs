//! A node's networks.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::namespace::Namespace;
use crate::record::Book;
use crate::{NetworkError, Settings};

/// What VXLAN adds to a packet: an Ethernet, an IPv4, a UDP and its own header.
const OVERHEAD: u32 = 50;
/// A link that takes more than this is the loopback, and says nothing of the wire.
const JUMBO: u32 = 9216;

/// A node's networks: makes them, attaches cells, and says what is there.
#[derive(Debug)]
pub struct Fabric {
    pub(crate) settings: Settings,
    pub(crate) node: Namespace,
    pub(crate) book: Book,
    /// The largest packet that a cell may send.
    pub(crate) mtu: u32,
    /// One thing at a time: rules and records are replaced as a whole.
    turn: Mutex<()>,
}

impl Fabric {
    /// The networks of the node that the settings tell of. Nothing is changed by it.
    pub fn open(settings: Settings) -> Result<Self, NetworkError> {
        settings.check()?;
        let node = Namespace::open(&settings.namespace)?.ok_or_else(|| {
            NetworkError::Refused(format!("{} is not a network namespace", settings.namespace.display()))
        })?;
        let book = Book::open(&settings.folder)?;
        let address = settings.address.to_string();
        let links = node.enter(|inside| inside.addresses())?;
        let link = links.iter().find(|link| link.addr_info.iter().any(|info| info.local == address));
        let Some(link) = link else {
            return Err(NetworkError::Refused(format!(
                "no link of this node has its address {address}: give it to one, or tell the node its right address"
            )));
        };
        let mtu = link.mtu.min(JUMBO).saturating_sub(OVERHEAD);
        Ok(Self { settings, node, book, mtu, turn: Mutex::new(()) })
    }

    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        // It guards nothing in memory, so whoever panicked while holding it left nothing half done there.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reach(&self, point: &'static str) {
        (self.settings.reach)(point);
    }

    /// The folder of the router namespaces.
    pub(crate) fn routers_folder(&self) -> PathBuf {
        self.settings.run.join("networks")
    }

    /// The file that holds a router namespace. The key is part of it, so that nodes may share a folder.
    pub(crate) fn router_path(&self, vni: u32) -> PathBuf {
        self.routers_folder().join(format!("{}-{vni}", self.settings.key))
    }
}
