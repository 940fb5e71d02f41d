//! Networks of a node.

use std::path::PathBuf;

use parking_lot::{Mutex, MutexGuard};

use crate::namespace::Namespace;
use crate::record::Book;
use crate::{NetworkError, Settings};

/// VXLAN overhead of a packet: an Ethernet, an IPv4, a UDP and its own header.
const OVERHEAD: u32 = 50;
/// A larger MTU is that of the loopback, and not of the wire.
const JUMBO: u32 = 9216;

/// Networks of a node: creates them, attaches cells, and surveys them.
#[derive(Debug)]
pub struct Fabric {
    pub(crate) settings: Settings,
    pub(crate) node: Namespace,
    pub(crate) book: Book,
    /// MTU of the cells.
    pub(crate) mtu: u32,
    /// Serializes changes: rules and records are replaced as a whole.
    turn: Mutex<()>,
}

impl Fabric {
    /// Opens the networks of the node in the settings, without changing anything.
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
                "no link of this node has its address {address}: assign it to one, or configure the node's right address"
            )));
        };
        let mtu = link.mtu.min(JUMBO).saturating_sub(OVERHEAD);
        Ok(Self { settings, node, book, mtu, turn: Mutex::new(()) })
    }

    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    pub(crate) fn reach(&self, point: &'static str) {
        (self.settings.reach)(point);
    }

    /// Returns the folder of the router namespaces.
    pub(crate) fn routers_folder(&self) -> PathBuf {
        self.settings.run.join("networks")
    }

    /// Returns the file of a router namespace. It contains the key, so that nodes may share a folder.
    pub(crate) fn router_path(&self, vni: u32) -> PathBuf {
        self.routers_folder().join(format!("{}-{vni}", self.settings.key))
    }
}
