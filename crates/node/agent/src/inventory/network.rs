//! The network devices with hardware behind them.

use muster_wire::inventory::NetworkDevice;

use super::pci::is_address;
use super::tree::Tree;

const FOLDER: &str = "sys/class/net";

/// What `addr_assign_type` says of an address that the kernel made up.
const RANDOM: i64 = 1;

pub(super) fn read(tree: &Tree<'_>) -> Vec<NetworkDevice> {
    tree.names(FOLDER).into_iter().filter_map(|name| device(tree, name)).collect()
}

fn device(tree: &Tree<'_>, name: String) -> Option<NetworkDevice> {
    let path = |file: &str| format!("{FOLDER}/{name}/{file}");
    // Bridges, tunnels and the loopback have no device behind them. Virtual functions have, but they come and go.
    if !tree.has(&path("device")) || tree.has(&path("device/physfn")) {
        return None;
    }
    let place = tree.resolved(&path("device"));
    // A paravirtual device sits on a bus of its own below the PCI device: the deepest address is the nearest.
    let mut parts = place.iter().flat_map(|place| place.iter()).filter_map(|part| part.to_str());
    let pci = parts.rfind(|part| is_address(part)).map(str::to_owned);
    // A member of a bond wears the bond's address; its own stands beside.
    let worn = || tree.text(&path("address"));
    let address = tree.text(&path("bonding_slave/perm_hwaddr")).or_else(worn).unwrap_or_default();
    let made_up = tree.number(&path("addr_assign_type")) == Some(RANDOM);
    Some(NetworkDevice {
        mac: if made_up { String::new() } else { permanent(&address) },
        mtu: tree.number(&path("mtu")).unwrap_or_default(),
        speed_mbps: tree.number(&path("speed")).filter(|speed| *speed > 0),
        state: tree.text(&path("operstate")).unwrap_or_else(|| "unknown".to_owned()),
        driver: tree.target(&path("device/driver")),
        pci,
        rdma: !tree.names(&path("device/infiniband")).is_empty(),
        name,
    })
}

/// The part of an address that stays the same from start to start.
fn permanent(address: &str) -> String {
    const INFINIBAND: usize = 20;
    const GUID: usize = 8;
    let bytes: Vec<&str> = address.split(':').collect();
    if bytes.len() == INFINIBAND {
        bytes[INFINIBAND - GUID..].join(":")
    } else {
        address.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::permanent;

    #[test]
    fn of_an_infiniband_address_the_port_stays() {
        let whole = "00:00:10:49:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:5c:80:7e";
        assert_eq!(permanent(whole), "94:6d:ae:03:00:5c:80:7e");
        assert_eq!(permanent("94:6D:AE:00:00:01"), "94:6d:ae:00:00:01");
    }
}
