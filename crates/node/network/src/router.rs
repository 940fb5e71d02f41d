//! The router namespace of a network: created, reconciled with its record, and removed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::address::{BRIDGE, Mac, PORT_PREFIX, UPLINK, VXLAN, VXLAN_PORT};
use crate::inside::{Entry, Inside, Link};
use crate::namespace::Namespace;
use crate::record::{Network, Place};
use crate::settings::point;
use crate::{Fabric, NetworkError, rules};

/// Broadcast entry of a VXLAN device.
const EVERYBODY: &str = "00:00:00:00:00:00";

/// Extent of a reconciliation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Everything.
    Whole,
    /// The rules, which change with every cell; the rest only if it is missing.
    Rules,
}

/// Completion state of a router namespace.
struct State {
    /// Whether its bridge and its VXLAN device are complete.
    links: bool,
    /// Whether it has an uplink; `None` if it is incomplete.
    uplink: Option<bool>,
}

impl State {
    /// Reads the state. Each part gets its route last, so a part with its route is complete.
    fn of(inside: &Inside) -> Result<Self, NetworkError> {
        let (names, (routed, default)) = (inside.names()?, inside.routed()?);
        let uplink = match (names.contains(UPLINK), default.contains(UPLINK)) {
            (true, false) => None,
            (there, _) => Some(there),
        };
        Ok(Self { links: names.contains(VXLAN) && routed.contains(BRIDGE), uplink })
    }
}

impl Fabric {
    /// Returns the router namespace of a network, if there is one.
    pub(crate) fn router(&self, vni: u32) -> Result<Option<Namespace>, NetworkError> {
        Namespace::open(&self.router_path(vni))
    }

    /// Reconciles a network with its record, from any state.
    pub(crate) fn settle(
        &self,
        network: &Network,
        places: &[Place],
        depth: Depth,
    ) -> Result<Namespace, NetworkError> {
        let router = match self.router(network.vni)? {
            Some(router) => router,
            None => {
                let router = Namespace::make(&self.router_path(network.vni))?;
                self.reach(point::NAMESPACE_MADE);
                router
            }
        };
        let here: Vec<&Place> =
            places.iter().filter(|place| place.network_id == network.network_id).collect();
        let text = rules::router(network, &here, self.settings.address);
        // The rules come before the links, so that no packet ever passes unfiltered.
        let state = router.enter(|inside| inside.nft(&text).and_then(|()| State::of(inside)))?;
        self.reach(point::RULES_MADE);
        if depth == Depth::Whole || !state.links {
            self.settle_links(network, &here, &router)?;
        }
        if depth == Depth::Whole || state.uplink != Some(network.uplink.is_some()) {
            self.settle_uplink(network, &router)?;
        }
        Ok(router)
    }

    fn settle_links(
        &self,
        network: &Network,
        here: &[&Place],
        router: &Namespace,
    ) -> Result<(), NetworkError> {
        let vxlan = router.enter(|inside| {
            quieten(inside)?;
            let links = inside.links()?;
            let find = |name: &str| links.iter().find(|link| link.ifname == name);
            inside.ip(&bridge_batch(network, self.mtu, find(BRIDGE).is_some()))?;
            match find(VXLAN) {
                Some(link) if is_vxlan(link, network.vni, self.settings.address) => Ok(true),
                // The node's address has changed.
                Some(_) => inside.remove_link(VXLAN).map(|()| false),
                None => Ok(false),
            }
        })?;
        self.reach(point::BRIDGE_MADE);
        if !vxlan {
            // Created from the node's namespace, so that its socket is there, but directly in the router's, so that the
            // node's namespace never contains our link name.
            let batch = format!(
                "link add name {VXLAN} mtu {} netns {} type vxlan id {} local {} dstport {VXLAN_PORT} nolearning\n",
                self.mtu,
                router.path(),
                network.vni,
                self.settings.address
            );
            self.add_vxlan(&batch)?;
            self.reach(point::VXLAN_MADE);
        }
        router.enter(|inside| {
            inside.ip(&format!(
                "link set dev {VXLAN} mtu {} master {BRIDGE}\n\
                 link set dev {VXLAN} type bridge_slave learning off flood off\n\
                 link set dev {VXLAN} up\n",
                self.mtu
            ))?;
            let batch =
                entries_batch(&inside.entries()?, &wanted_entries(network, here, self.settings.address));
            if !batch.is_empty() {
                inside.bridge(&batch)?;
            }
            // Last, because it adds the route that marks the whole as complete.
            inside.ip(&format!("link set dev {BRIDGE} up\n"))
        })
    }

    /// Removes a network's namespace after its content, so that it is empty if another process holds it.
    pub(crate) fn remove_router(&self, vni: u32) -> Result<(), NetworkError> {
        if let Some(router) = self.router(vni)? {
            router.enter(|inside| {
                // Some kernels put tunnels of their own into every namespace, which cannot be removed.
                let ours = |name: &String| {
                    [BRIDGE, VXLAN, UPLINK].contains(&name.as_str()) || name.starts_with(PORT_PREFIX)
                };
                for name in inside.names()?.into_iter().filter(ours) {
                    inside.remove_link(&name)?;
                }
                inside.nft("flush ruleset\n")
            })?;
            self.reach(point::LINKS_GONE);
        }
        Namespace::remove(&self.router_path(vni))?;
        self.reach(point::NAMESPACE_GONE);
        Ok(())
    }

    /// Returns the VNIs of all networks with a namespace of this node, recorded or not.
    pub(crate) fn router_numbers(&self) -> Result<BTreeSet<u32>, NetworkError> {
        let folder = self.routers_folder();
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(NetworkError::file(&folder, error)),
        };
        let prefix = format!("{}-", self.settings.key);
        let mut numbers = BTreeSet::new();
        for entry in entries {
            let name = entry.map_err(|error| NetworkError::file(&folder, error))?.file_name();
            let number: Option<u32> =
                name.to_str().and_then(|name| name.strip_prefix(&prefix)).and_then(|rest| rest.parse().ok());
            numbers.extend(number);
        }
        Ok(numbers)
    }
}

/// Disables IPv6 in the router, and limits filtering of bridged packets to the bridge's rules.
fn quieten(inside: &Inside) -> Result<(), NetworkError> {
    inside.set("ipv6/conf/all/disable_ipv6", "1")?;
    inside.set("ipv6/conf/default/disable_ipv6", "1")?;
    inside.set("bridge/bridge-nf-call-iptables", "0")?;
    inside.set("bridge/bridge-nf-call-arptables", "0")
}

fn bridge_batch(network: &Network, mtu: u32, there: bool) -> String {
    let gateway = network.subnet.gateway();
    let mac = Mac::of(gateway);
    let make = if there { String::new() } else { format!("link add name {BRIDGE} type bridge\n") };
    format!(
        "{make}link set dev {BRIDGE} address {mac} mtu {mtu} type bridge stp_state 0 mcast_snooping 0\n\
         addr replace {gateway}/{} dev {BRIDGE}\nlink set dev lo up\n",
        network.subnet.prefix()
    )
}

/// Timeout for the kernel to release the device of a removed namespace.
const LET_GO: Duration = Duration::from_secs(5);

impl Fabric {
    /// Creates the VXLAN device. A recently removed namespace may still hold one with the same number: the kernel removes it
    /// asynchronously.
    fn add_vxlan(&self, batch: &str) -> Result<(), NetworkError> {
        let began = Instant::now();
        loop {
            match self.node.enter(|inside| inside.ip(batch)) {
                Err(error) if began.elapsed() < LET_GO && error.to_string().contains("already exists") => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                done => return done,
            }
        }
    }
}

fn is_vxlan(link: &Link, vni: u32, address: Ipv4Addr) -> bool {
    let info = &link.linkinfo.info_data;
    info.id == Some(vni) && info.port == Some(VXLAN_PORT) && info.local == Some(address.to_string())
}

/// Desired entries of the VXLAN device: for each remote cell its node and this port of the bridge, and for each node a
/// broadcast entry. (hardware address, node or `None` for the bridge's own entry)
type Known = BTreeSet<(String, Option<String>)>;

fn wanted_entries(network: &Network, here: &[&Place], node: Ipv4Addr) -> Known {
    let mut wanted = Known::new();
    for peer in network.remote(here, node) {
        let mac = Mac::of(peer.address).to_string();
        wanted.insert((mac.clone(), Some(peer.node.to_string())));
        wanted.insert((mac, None));
        wanted.insert((EVERYBODY.to_owned(), Some(peer.node.to_string())));
    }
    wanted
}

/// Returns the commands that reconcile the device's entries.
fn entries_batch(there: &[Entry], wanted: &Known) -> String {
    let of_device = there.iter().filter(|entry| entry.ifname == VXLAN);
    // The device's own hardware address is a permanent entry of the bridge, not ours.
    let ours =
        of_device.filter(|entry| entry.dst.is_some() || (entry.master.is_some() && entry.state == "static"));
    let there: Known = ours.map(|entry| (entry.mac.clone(), entry.dst.clone())).collect();
    let mut batch = String::new();
    for (verb, entries) in [("del", there.difference(wanted)), ("append", wanted.difference(&there))] {
        for (mac, node) in entries {
            let _ = match node {
                Some(node) => writeln!(batch, "fdb {verb} {mac} dev {VXLAN} dst {node} self static"),
                None if verb == "del" => writeln!(batch, "fdb del {mac} dev {VXLAN} master"),
                None => writeln!(batch, "fdb replace {mac} dev {VXLAN} master static"),
            };
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(mac: &str, dst: Option<&str>) -> Entry {
        let master = if dst.is_none() { Some(BRIDGE.to_owned()) } else { None };
        Entry {
            mac: mac.to_owned(),
            ifname: VXLAN.to_owned(),
            dst: dst.map(str::to_owned),
            master,
            state: "static".to_owned(),
        }
    }

    #[test]
    fn entries_that_are_right_are_left_alone_and_the_others_go_first() {
        let wanted: Known = [("aa".to_owned(), Some("1".to_owned())), ("aa".to_owned(), None)].into();
        assert_eq!(entries_batch(&[entry("aa", Some("1")), entry("aa", None)], &wanted), "");
        let batch = entries_batch(&[entry("aa", Some("2")), entry("bb", None)], &wanted);
        let lines: Vec<&str> = batch.lines().collect();
        assert_eq!(lines.len(), 4, "{batch}");
        assert!(lines[..2].iter().all(|line| line.starts_with("fdb del")), "{batch}");
    }
}
