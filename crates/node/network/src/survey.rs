//! Survey of all platform resources in the kernel and the folder, recorded or not, with their owners.

use std::collections::BTreeSet;
use std::fmt;

use muster_ids::{CellId, NetworkId};
use muster_wire::cell::Protocol;

use crate::address::{BRIDGE, Mac, UPLINK, VXLAN, VXLAN_PORT, port, uplink_end, uplink_prefix};
use crate::inside::{Entry, Inside, Link};
use crate::record::{Network, Place};
use crate::rules::{NEIGHBOUR, ROUTER_TABLE, node_table};
use crate::{Fabric, NetworkError};

/// Links that the kernel and its modules create in every namespace.
const BORN: [&str; 10] =
    ["lo", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "sit0", "ip6tnl0", "ip6_vti0", "ip6gre0"];

/// Kind of a found resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkResource {
    /// A network namespace, by its file.
    Namespace,
    /// A link.
    Link,
    /// A forwarding entry: the port or node behind a hardware address.
    Entry,
    /// A table of rules, or an entry in it that names an owner.
    Rule,
    /// A socket.
    Socket,
    /// A document in the folder.
    Record,
    /// A changed setting of the host.
    Setting,
}

/// Location of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Where {
    /// The node's own namespace, or its folders.
    Node,
    /// The router namespace of the network with this number.
    Router(u32),
}

/// Owner of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The node, for all of its networks.
    Node,
    /// A network.
    Network(NetworkId),
    /// A cell that is, or was, attached here.
    Cell(CellId),
    /// A cell on another node.
    Neighbour(CellId),
}

/// A found resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Kind.
    pub thing: NetworkResource,
    /// Location.
    pub at: Where,
    /// Name at that location.
    pub name: String,
    /// Owner, if known.
    pub owner: Option<Owner>,
    /// Whether it matches the records.
    pub recorded: bool,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thing = match self.thing {
            NetworkResource::Namespace => "namespace",
            NetworkResource::Link => "link",
            NetworkResource::Entry => "forwarding entry",
            NetworkResource::Rule => "rule",
            NetworkResource::Socket => "socket",
            NetworkResource::Record => "record",
            NetworkResource::Setting => "setting",
        };
        write!(f, "{thing} {}", self.name)?;
        match self.at {
            Where::Node => write!(f, " on the node"),
            Where::Router(vni) => write!(f, " in network {vni}"),
        }
    }
}

impl Fabric {
    /// Lists all platform resources on this node, by inspection.
    pub fn survey(&self) -> Result<Vec<Found>, NetworkError> {
        let _turn = self.turn();
        let (networks, places) = (self.book.networks()?, self.book.places()?);
        let book = Written { key: &self.settings.key, networks: &networks, places: &places };
        let mut found = book.records();
        let node = self.node.enter(|inside| book.on_node(inside, self.mark()))?;
        found.extend(node);
        if self.book.forwarding()?.is_some() {
            let recorded = networks.iter().any(|network| network.uplink.is_some());
            found.push(Found {
                thing: NetworkResource::Setting,
                at: Where::Node,
                name: "net.ipv4.ip_forward".to_owned(),
                owner: Some(Owner::Node),
                recorded,
            });
        }
        for vni in self.router_numbers()? {
            let owner = book.network(vni).map(|network| Owner::Network(network.network_id));
            let name = self.router_path(vni).display().to_string();
            found.push(Found {
                thing: NetworkResource::Namespace,
                at: Where::Node,
                name,
                owner,
                recorded: owner.is_some(),
            });
            if let Some(router) = self.router(vni)? {
                found.extend(router.enter(|inside| book.in_router(inside, vni, self.settings.address))?);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Describes the remains of a cell here; empty once it was detached.
    pub fn leftovers(&self, cell_id: CellId) -> Result<Vec<String>, NetworkError> {
        let of_cell = |found: &Found| match found.owner {
            Some(Owner::Cell(owner)) => owner == cell_id,
            Some(Owner::Neighbour(owner)) => owner == cell_id && !found.recorded,
            _ => false,
        };
        Ok(self.survey()?.iter().filter(|found| of_cell(found)).map(Found::to_string).collect())
    }

    /// Returns the text that identifies rules of the node's table.
    fn mark(&self) -> String {
        node_table(&self.settings.key)
    }
}

/// The records, against which everything found is compared.
struct Written<'a> {
    key: &'a str,
    networks: &'a [Network],
    places: &'a [Place],
}

impl Written<'_> {
    fn network(&self, vni: u32) -> Option<&Network> {
        self.networks.iter().find(|network| network.vni == vni)
    }

    fn records(&self) -> Vec<Found> {
        let found = |name: String, owner| Found {
            thing: NetworkResource::Record,
            at: Where::Node,
            name,
            owner: Some(owner),
            recorded: true,
        };
        let networks = self.networks.iter().map(|network| network.network_id);
        let networks = networks.map(|id| found(id.to_string(), Owner::Network(id)));
        let cells =
            self.places.iter().map(|place| place.cell_id).map(|id| found(id.to_string(), Owner::Cell(id)));
        networks.chain(cells).collect()
    }

    fn on_node(&self, inside: &Inside, table: String) -> Result<Vec<Found>, NetworkError> {
        let mut found = Vec::new();
        for name in inside.names()?.into_iter().filter(|name| name.starts_with(&uplink_prefix(self.key))) {
            let network = self.networks.iter().find(|network| uplink_end(self.key, network.vni) == name);
            found.push(Found {
                thing: NetworkResource::Link,
                at: Where::Node,
                name,
                owner: network.map(|network| Owner::Network(network.network_id)),
                recorded: network.is_some_and(|network| network.uplink.is_some()),
            });
        }
        if inside.tables()?.contains(&("inet".to_owned(), table.clone())) {
            let text = inside.table("inet", &table)?;
            found.extend(self.rules(Where::Node, "inet", &table, &text, Some(Owner::Node)));
        }
        if inside.listening(Protocol::Udp)?.contains(&VXLAN_PORT) {
            found.push(Found {
                thing: NetworkResource::Socket,
                at: Where::Node,
                name: format!("udp {VXLAN_PORT}"),
                owner: Some(Owner::Node),
                recorded: !self.networks.is_empty(),
            });
        }
        Ok(found)
    }

    fn in_router(
        &self,
        inside: &Inside,
        vni: u32,
        node: std::net::Ipv4Addr,
    ) -> Result<Vec<Found>, NetworkError> {
        let network = self.network(vni);
        let owner = network.map(|network| Owner::Network(network.network_id));
        let links = inside.links()?;
        let made = links.iter().filter(|link| !BORN.contains(&link.ifname.as_str()));
        let mut found: Vec<Found> = made.map(|link| self.link(link, vni, network)).collect();
        for entry in inside.entries()? {
            found.extend(self.entry(&entry, &links, vni, network, node));
        }
        for (family, table) in inside.tables()? {
            let text = inside.table(&family, &table)?;
            let owner = owner.filter(|_| table == ROUTER_TABLE);
            found.extend(self.rules(Where::Router(vni), &family, &table, &text, owner));
        }
        Ok(found)
    }

    fn link(&self, link: &Link, vni: u32, network: Option<&Network>) -> Found {
        let cell = link.ifalias.as_ref().and_then(|alias| alias.parse::<CellId>().ok());
        let written = network.and_then(|network| {
            let mut here = self.places.iter().filter(|place| place.network_id == network.network_id);
            here.find(|place| port(place.address) == link.ifname)
        });
        // A link that was created and not yet labelled is identified by its name.
        let cell = cell.or(written.map(|place| place.cell_id));
        let ours = match link.ifname.as_str() {
            BRIDGE | VXLAN => network.is_some(),
            UPLINK => network.is_some_and(|network| network.uplink.is_some()),
            _ => false,
        };
        let owner = match cell {
            Some(cell) => Some(Owner::Cell(cell)),
            None => network.filter(|_| ours).map(|network| Owner::Network(network.network_id)),
        };
        Found {
            thing: NetworkResource::Link,
            at: Where::Router(vni),
            name: link.ifname.clone(),
            owner,
            recorded: ours || written.is_some_and(|place| Some(place.cell_id) == cell),
        }
    }

    /// Skips the kernel's entries for a link's own address and for groups.
    fn entry(
        &self,
        entry: &Entry,
        links: &[Link],
        vni: u32,
        network: Option<&Network>,
        node: std::net::Ipv4Addr,
    ) -> Option<Found> {
        let own = links.iter().any(|link| link.ifname != "lo" && link.address == entry.mac);
        let group = entry.mac.starts_with("33:33:") || entry.mac.starts_with("01:00:5e:");
        if own || group {
            return None;
        }
        let to = entry.dst.as_deref().unwrap_or("the bridge");
        let name = format!("{} dev {} to {to}", entry.mac, entry.ifname);
        let is = |address| Mac::of(address).to_string() == entry.mac;
        let local = network.and_then(|network| {
            self.places.iter().find(|place| place.network_id == network.network_id && is(place.address))
        });
        let peer = network.and_then(|network| network.neighbours.iter().find(|peer| is(peer.address)));
        let to_node = |at: std::net::Ipv4Addr| entry.dst.as_ref().is_none_or(|dst| *dst == at.to_string());
        let (owner, recorded) = match (local, peer) {
            (Some(place), _) => (Some(Owner::Cell(place.cell_id)), entry.ifname == port(place.address)),
            (None, Some(peer)) if peer.node == node => (Some(Owner::Cell(peer.cell_id)), false),
            (None, Some(peer)) => {
                (Some(Owner::Neighbour(peer.cell_id)), entry.ifname == VXLAN && to_node(peer.node))
            }
            (None, None) => {
                let flood = entry.mac == "00:00:00:00:00:00"
                    && network.is_some_and(|network| {
                        network.neighbours.iter().any(|peer| peer.node != node && to_node(peer.node))
                    });
                (network.map(|network| Owner::Network(network.network_id)), flood)
            }
        };
        Some(Found { thing: NetworkResource::Entry, at: Where::Router(vni), name, owner, recorded })
    }

    /// Returns a table, and every owner named by a comment in it.
    fn rules(&self, at: Where, family: &str, table: &str, text: &str, owner: Option<Owner>) -> Vec<Found> {
        let name = format!("in table {family} {table}");
        let found = |owner: Option<Owner>, recorded| Found {
            thing: NetworkResource::Rule,
            at,
            name: name.clone(),
            owner,
            recorded,
        };
        let comments: BTreeSet<&str> = text
            .split("comment \"")
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(said, _)| said)
            .collect();
        let mut all = vec![found(owner, owner.is_some())];
        for comment in comments {
            if let Some(cell) = comment.strip_prefix(NEIGHBOUR).and_then(|id| id.parse().ok()) {
                let known = self.networks.iter().flat_map(|network| &network.neighbours);
                all.push(found(Some(Owner::Neighbour(cell)), known.clone().any(|peer| peer.cell_id == cell)));
            } else if let Ok(cell) = comment.parse() {
                all.push(found(
                    Some(Owner::Cell(cell)),
                    self.places.iter().any(|place| place.cell_id == cell),
                ));
            } else if let Ok(id) = comment.parse() {
                let known = self.networks.iter().any(|network| network.network_id == id);
                all.push(found(Some(Owner::Network(id)), known));
            }
        }
        all
    }
}
