//! Addresses and the names derived from them. Pure: the same address has the same names on every node.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bridge of a network, in its router namespace.
pub(crate) const BRIDGE: &str = "muster-bridge";
/// Link to the network's cells on other nodes, in its router namespace.
pub(crate) const VXLAN: &str = "muster-vxlan";
/// Link out of the network, in its router namespace.
pub(crate) const UPLINK: &str = "muster-uplink";
/// Link into the network, in the cell.
pub(crate) const ETH0: &str = "eth0";
/// Prefix of the cells' ports.
pub(crate) const PORT_PREFIX: &str = "cell-";
/// Registered port of VXLAN.
pub(crate) const VXLAN_PORT: u16 = 4789;
/// Maximum uplinks of a node.
pub(crate) const UPLINKS: u16 = 2048;

/// Returns the name of a cell's link in the router namespace. An address is unique in its network, so the name is too.
pub(crate) fn port(address: Ipv4Addr) -> String {
    format!("{PORT_PREFIX}{:08x}", address.to_bits())
}

/// Returns the name of a network's uplink in the node's namespace; at most 15 characters, the kernel's limit.
pub(crate) fn uplink_end(key: &str, vni: u32) -> String {
    format!("{}{vni:06x}", uplink_prefix(key))
}

/// Returns the prefix of all of a node's uplinks.
pub(crate) fn uplink_prefix(key: &str) -> String {
    format!("mu{key}-")
}

/// Returns the two addresses of an uplink: the node's and the router's. They are in 169.254.128.0/19, which is link-local
/// and excludes the metadata address of clouds.
pub(crate) fn uplink_addresses(index: u16) -> (Ipv4Addr, Ipv4Addr) {
    let base = Ipv4Addr::new(169, 254, 128, 0).to_bits() + 4 * u32::from(index % UPLINKS);
    (Ipv4Addr::from_bits(base + 1), Ipv4Addr::from_bits(base + 2))
}

/// A hardware address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mac([u8; 6]);

impl Mac {
    /// Derives the hardware address from the IP address, so that it needs no discovery.
    pub(crate) fn of(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Self([0x02, 0x4d, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Address range of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnet {
    base: Ipv4Addr,
    prefix: u8,
}

impl Subnet {
    /// Returns the prefix length.
    pub(crate) fn prefix(self) -> u8 {
        self.prefix
    }

    /// Returns the first address, the router's on every node.
    pub(crate) fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits() + 1)
    }

    /// Reports whether a cell may have this address.
    pub(crate) fn offers(self, address: Ipv4Addr) -> bool {
        let host = u32::MAX >> self.prefix;
        let (base, address) = (self.base.to_bits(), address.to_bits());
        address & !host == base && address - base > 1 && address - base < host
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a subnet like 10.64.16.0/20");
        let (base, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let base: Ipv4Addr = base.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        if !(8..=29).contains(&prefix) {
            return Err(format!("{text} is not between /8 and /29"));
        }
        if base.to_bits() & (u32::MAX >> prefix) != 0 {
            return Err(format!("{text} does not begin where a /{prefix} does"));
        }
        if base.is_loopback() || base.is_link_local() || base.is_multicast() || base.octets()[0] == 0 {
            return Err(format!("{text} are addresses that no network may have"));
        }
        Ok(Self { base, prefix })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl Serialize for Subnet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subnet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_offers_neither_its_ends_nor_its_gateway() {
        let subnet: Subnet = "10.64.16.0/29".parse().unwrap();
        let offered: Vec<u8> =
            (0..16).filter(|last| subnet.offers(Ipv4Addr::new(10, 64, 16, *last))).collect();
        assert_eq!(offered, [2, 3, 4, 5, 6]);
        assert_eq!(subnet.gateway(), Ipv4Addr::new(10, 64, 16, 1));
    }

    #[test]
    fn a_subnet_that_is_none_is_refused() {
        for text in ["", "10.0.0.0", "10.0.0.1/24", "10.0.0.0/33", "10.0.0.0/30", "169.254.0.0/16", "x/8"] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_link_name_fits_the_kernel() {
        assert_eq!(port(Ipv4Addr::new(10, 64, 16, 2)), "cell-0a401002");
        assert_eq!(uplink_end("abcdef", 0xff_ffff).len(), 15);
        for name in [BRIDGE, VXLAN, UPLINK] {
            assert!(name.len() <= 15);
        }
    }

    #[test]
    fn no_two_uplinks_share_an_address_and_none_is_the_metadata_address() {
        let mut all: Vec<_> =
            (0..UPLINKS).map(uplink_addresses).flat_map(|(node, router)| [node, router]).collect();
        assert!(all.iter().all(|address| address.is_link_local() && address.octets()[2] < 160));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), usize::from(UPLINKS) * 2);
    }
}
