//! Actual state of a cell's link.

use std::net::Ipv4Addr;

use muster_ids::CellId;

use crate::address::{BRIDGE, ETH0, port};
use crate::{Fabric, NetworkError};

/// State of a cell's `eth0`, as reported by the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Address, if any.
    pub address: Option<Ipv4Addr>,
    /// Prefix length of its address.
    pub prefix: u8,
    /// Hardware address.
    pub mac: String,
    /// MTU.
    pub mtu: u32,
    /// Whether it and its peer are up.
    pub up: bool,
    /// Whether its peer is this cell's port at the bridge of its network here, and forwards frames.
    pub joined: bool,
}

impl Fabric {
    /// Inspects the `eth0` of a cell, through one of its processes; `None` if it has no such link. Never answered from
    /// records, except for the network of the other end.
    pub fn look(&self, cell_id: CellId, pid: u32) -> Result<Option<Look>, NetworkError> {
        let _turn = self.turn();
        let Some(link) = self.cell_namespace(pid)?.enter(|inside| inside.link(ETH0))? else {
            return Ok(None);
        };
        let up = |flags: &[String]| ["UP", "LOWER_UP"].iter().all(|flag| flags.iter().any(|has| has == flag));
        let info = link.addr_info.iter().find_map(|info| Some((info.local.parse().ok()?, info.prefixlen)));
        let address: Option<Ipv4Addr> = info.map(|(address, _)| address);
        let place = self.book.places()?.into_iter().find(|place| place.cell_id == cell_id);
        let network = match &place {
            Some(place) => self.book.network(place.network_id)?,
            None => None,
        };
        let other = match (&network, address) {
            (Some(network), Some(address)) => {
                let name = port(address);
                self.ports(network.vni)?.into_iter().find(|link| link.ifname == name)
            }
            _ => None,
        };
        let joined = other.is_some_and(|other| {
            other.link_index == Some(link.ifindex)
                && link.link_index == Some(other.ifindex)
                && other.master.as_deref() == Some(BRIDGE)
                && other.forwards()
                && other.ifalias == Some(cell_id.to_string())
        });
        Ok(Some(Look {
            address,
            prefix: info.map_or(0, |(_, prefix)| prefix),
            up: up(&link.flags),
            mtu: link.mtu,
            mac: link.address,
            joined,
        }))
    }
}
