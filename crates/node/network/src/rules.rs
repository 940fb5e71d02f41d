//! Rules as nftables text. Pure: they derive from the records, and are always replaced as a whole, so that no part of an old
//! rule can stay. Everything not listed is dropped.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use muster_wire::cell::Protocol;

use crate::address::{BRIDGE, Mac, UPLINK, VXLAN, VXLAN_PORT, port, uplink_addresses, uplink_end};
use crate::record::{ForwardedPort, Forwarding, Network, Place};

/// Prefix of the comment for a cell on another node; that of a local cell is just its id.
pub(crate) const NEIGHBOUR: &str = "neighbour ";

/// Table in the router namespaces.
pub(crate) const ROUTER_TABLE: &str = "muster";

/// Returns the table in the node's own namespace.
pub(crate) fn node_table(key: &str) -> String {
    format!("muster_{key}")
}

/// Removes a table, whether or not it exists.
pub(crate) fn without(family: &str, table: &str) -> String {
    format!("add table {family} {table}\ndelete table {family} {table}\n")
}

/// Returns the rules of a router namespace: `here` are the cells of the network on this node, at `node`.
pub(crate) fn router(network: &Network, here: &[&Place], node: Ipv4Addr) -> String {
    let gateway = network.subnet.gateway();
    let remote = network
        .remote(here, node)
        .map(|peer| (VXLAN.to_owned(), peer.address, format!("{NEIGHBOUR}{}", peer.cell_id)));
    let local = here.iter().map(|place| (port(place.address), place.address, place.cell_id.to_string()));
    let places = set(
        "place",
        "ifname . ether_addr . ipv4_addr",
        local.chain(remote).map(|(from, address, whose)| {
            format!("\"{from}\" . {} . {address} comment \"{whose}\"", Mac::of(address))
        }),
    );
    let egress = set(
        "egress",
        "ipv4_addr",
        here.iter()
            .filter(|place| place.egress)
            .map(|place| format!("{} comment \"{}\"", place.address, place.cell_id)),
    );
    let forwarded_ports: Vec<(&Place, &ForwardedPort)> = here
        .iter()
        .flat_map(|place| place.forwarded_ports.iter().map(move |forwarded| (*place, forwarded)))
        .collect();
    let forwarded = set(
        "forwarded",
        "ipv4_addr . inet_proto . inet_service",
        unique(forwarded_ports.iter().map(|(place, forwarded)| {
            format!(
                "{} . {} . {} comment \"{}\"",
                place.address,
                word(forwarded.protocol),
                forwarded.port,
                place.cell_id
            )
        })),
    );
    let mut entries = String::new();
    for (place, forwarded) in &forwarded_ports {
        let (protocol, address, whose) = (word(forwarded.protocol), place.address, place.cell_id);
        let _ = writeln!(
            entries,
            "    iifname \"{UPLINK}\" {protocol} dport {} dnat ip to {address}:{} comment \"{whose}\"",
            forwarded.node_port, forwarded.port
        );
    }
    // A frame passes only if its port, its hardware address and its IP address belong together; everything except IPv4 and
    // ARP is dropped. The gateway has the same addresses on every node, so it is never resolved over the wire.
    let bridge = format!(
        r#"{clear}table bridge {ROUTER_TABLE} {{
{places}  chain from_port {{
    type filter hook prerouting priority -300; policy drop;
    iifname . ether saddr . ip saddr @place accept
    iifname . ether saddr . arp saddr ip @place iifname . arp saddr ether . arp saddr ip @place accept
  }}
  chain to_port {{
    type filter hook forward priority 0; policy accept;
    oifname "{VXLAN}" arp daddr ip {gateway} drop
  }}
  chain from_router {{
    type filter hook output priority 0; policy accept;
    oifname "{VXLAN}" drop
  }}
}}
"#,
        clear = without("bridge", ROUTER_TABLE),
    );
    // Bridged packets pass `forward` only on machines where bridges call IP rules; that must not matter between cells of one
    // network. VXLAN from a cell would have the node's address and so impersonate it: always dropped.
    let inet = format!(
        r#"{clear}table inet {ROUTER_TABLE} {{
{egress}{forwarded}  chain to_router {{
    type filter hook input priority 0; policy drop;
    iifname "{BRIDGE}" ip daddr {gateway} icmp type echo-request accept
  }}
  chain through {{
    type filter hook forward priority 0; policy drop;
    iifname "{BRIDGE}" oifname "{BRIDGE}" accept
    iifname "{UPLINK}" oifname "{BRIDGE}" ct status dnat ip daddr . meta l4proto . th dport @forwarded accept
    iifname "{BRIDGE}" oifname "{UPLINK}" ct status dnat ct direction reply ip saddr . meta l4proto . th sport @forwarded accept
    iifname "{BRIDGE}" oifname "{UPLINK}" ip daddr 169.254.0.0/16 drop
    iifname "{BRIDGE}" oifname "{UPLINK}" udp dport {VXLAN_PORT} drop
    iifname "{BRIDGE}" oifname "{UPLINK}" ip saddr @egress accept
    iifname "{UPLINK}" oifname "{BRIDGE}" ip daddr @egress ct state established,related accept
  }}
  chain inwards {{
    type nat hook prerouting priority dstnat; policy accept;
{entries}  }}
  chain outwards {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname "{UPLINK}" masquerade
    iifname "{UPLINK}" oifname "{BRIDGE}" masquerade
  }}
}}
"#,
        clear = without("inet", ROUTER_TABLE),
    );
    bridge + &inet
}

/// Returns the rules in the node's own namespace. They never accept for others and drop only traffic of ours: packets for
/// our networks from hosts that are not their nodes, and undeclared traffic from or to our uplinks.
pub(crate) fn node(
    key: &str,
    node: Ipv4Addr,
    networks: &[Network],
    places: &[Place],
    forwarding: Option<&Forwarding>,
) -> String {
    let table = node_table(key);
    let clear = without("inet", &table);
    if networks.is_empty() {
        return clear;
    }
    let mut wire = String::new();
    for network in networks {
        let nodes = network.neighbours.iter().map(|peer| peer.node).filter(|peer| *peer != node);
        let nodes: Vec<String> = unique(nodes.map(|peer| peer.to_string())).collect();
        let stranger =
            if nodes.is_empty() { String::new() } else { format!("ip saddr != {{ {} }} ", nodes.join(", ")) };
        let _ = writeln!(
            wire,
            "    udp dport {VXLAN_PORT} @th,96,24 {:#x} {stranger}drop comment \"{}\"",
            network.vni, network.network_id
        );
    }
    let uplinks: Vec<&Network> = networks.iter().filter(|network| network.uplink.is_some()).collect();
    if uplinks.is_empty() {
        return format!(
            "{clear}table inet {table} {{\n  chain to_node {{\n    type filter hook input priority -10; policy accept;\n\
             {wire}  }}\n}}\n"
        );
    }
    let links = set(
        "uplink",
        "ifname",
        uplinks.iter().map(|network| {
            format!("\"{}\" comment \"{}\"", uplink_end(key, network.vni), network.network_id)
        }),
    );
    let (mut forwarded_ports, mut masks) = (String::new(), String::new());
    for network in &uplinks {
        let (_, router) = uplink_addresses(network.uplink.unwrap_or_default());
        let _ = writeln!(
            masks,
            "    ip saddr {router} oifname != @uplink masquerade comment \"{}\"",
            network.network_id
        );
        for place in places.iter().filter(|place| place.network_id == network.network_id) {
            for forwarded in &place.forwarded_ports {
                let (protocol, port) = (word(forwarded.protocol), forwarded.node_port);
                let _ = writeln!(
                    forwarded_ports,
                    "    ip daddr {node} {protocol} dport {port} dnat ip to {router}:{port} comment \"{}\"",
                    place.cell_id
                );
            }
        }
    }
    format!(
        r#"{clear}table inet {table} {{
{links}  chain to_node {{
    type filter hook input priority -10; policy accept;
{wire}    iifname @uplink ct state established,related accept
    iifname @uplink drop
  }}
  chain through {{
    type filter hook forward priority -10; policy accept;
    iifname @uplink oifname @uplink drop
    iifname @uplink ip daddr 169.254.0.0/16 drop
    iifname @uplink udp dport {VXLAN_PORT} drop
    iifname @uplink accept
    oifname @uplink ct state established,related accept
    oifname @uplink ct status dnat accept
    oifname @uplink drop
{closed}  }}
  chain inwards {{
    type nat hook prerouting priority -105; policy accept;
    iifname @uplink accept
{forwarded_ports}  }}
  chain inwards_from_node {{
    type nat hook output priority -105; policy accept;
{forwarded_ports}  }}
  chain outwards {{
    type nat hook postrouting priority srcnat; policy accept;
{masks}  }}
}}
"#,
        closed = forwarding.map(closed).unwrap_or_default(),
    )
}

/// Forwarding was off and is on because of us: the host must not become a router for other traffic.
fn closed(forwarding: &Forwarding) -> String {
    let before = forwarding.before.iter().filter(|(_, value)| *value == "1").filter_map(|(key, _)| {
        let device = key.strip_prefix("ipv4/conf/")?.strip_suffix("/forwarding")?;
        (!matches!(device, "all" | "default")).then(|| format!("\"{device}\""))
    });
    let before: Vec<String> = before.collect();
    let others =
        if before.is_empty() { String::new() } else { format!("iifname != {{ {} }} ", before.join(", ")) };
    format!("    meta nfproto ipv4 {others}drop comment \"forwarding was off\"\n")
}

fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

fn unique(texts: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    texts.collect::<std::collections::BTreeSet<_>>().into_iter()
}

/// Returns a named set; nftables rejects an empty `elements`.
fn set(name: &str, kind: &str, elements: impl Iterator<Item = String>) -> String {
    let elements: Vec<String> = elements.collect();
    let elements = if elements.is_empty() {
        String::new()
    } else {
        format!("    elements = {{\n      {}\n    }}\n", elements.join(",\n      "))
    };
    format!("  set {name} {{\n    type {kind}\n{elements}  }}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(uplink: Option<u16>) -> Network {
        serde_json::from_value(serde_json::json!({
            "network_id": "net_01h455vb4pex5vsknk084sn02q", "vni": 77, "subnet": "10.64.16.0/20", "name": "n",
            "neighbours": [], "uplink": uplink,
        }))
        .unwrap()
    }

    const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    #[test]
    fn a_node_without_networks_has_no_table() {
        assert_eq!(node("k", NODE, &[], &[], None), without("inet", "muster_k"));
    }

    #[test]
    fn a_node_without_uplinks_forwards_and_translates_nothing() {
        let text = node("k", NODE, &[network(None)], &[], None);
        assert!(!text.contains("nat") && !text.contains("hook forward"), "{text}");
        assert!(text.contains("udp dport 4789 @th,96,24 0x4d drop"), "{text}");
    }

    #[test]
    fn a_host_that_did_not_forward_is_closed_to_all_but_the_devices_that_did() {
        let kept = |before: &[(&str, &str)]| {
            let before = before
                .iter()
                .map(|(device, value)| (format!("ipv4/conf/{device}/forwarding"), (*value).to_owned()));
            Forwarding { boot: String::new(), namespace: (0, 0), before: before.collect() }
        };
        let text = |kept: Option<&Forwarding>| node("k", NODE, &[network(Some(0))], &[], kept);
        assert!(!text(None).contains("forwarding was off"));
        let closed = text(Some(&kept(&[("eth0", "0"), ("default", "1")])));
        assert!(closed.contains("meta nfproto ipv4 drop"), "{closed}");
        let open = text(Some(&kept(&[("eth0", "0"), ("eth1", "1")])));
        assert!(open.contains("iifname != { \"eth1\" } drop"), "{open}");
    }
}
