//! Attaches a cell to a network.

use std::thread;
use std::time::{Duration, Instant};

use muster_ids::CellId;
use muster_wire::cell::{Attachment, Ingress, Protocol};

use crate::address::{BRIDGE, ETH0, Mac, port};
use crate::namespace::Namespace;
use crate::record::{Network, Place};
use crate::router::Depth;
use crate::settings::point;
use crate::uplink::plan_uplink;
use crate::{Fabric, NetworkError, order};

/// Timeout for a port to forward frames.
const READY: Duration = Duration::from_secs(10);
/// Interval of the checks.
const PAUSE: Duration = Duration::from_millis(2);

/// A cell and its attachment.
#[derive(Debug, Clone, Copy)]
pub struct Attach<'a> {
    /// Cell id.
    pub cell_id: CellId,
    /// PID on the node of a process in the cell's network namespace.
    pub pid: u32,
    /// Attachment.
    pub attachment: &'a Attachment,
    /// Whether it may reach addresses outside its network.
    pub egress: bool,
    /// Ports reachable at the node, each with the node's port.
    pub ingress: &'a [Ingress],
}

impl Fabric {
    /// Attaches a cell. Idempotent, wherever it was interrupted.
    pub fn attach(&self, attach: &Attach<'_>) -> Result<(), NetworkError> {
        let _turn = self.turn();
        let place = order::place(attach)?;
        let cell = self.cell_namespace(attach.pid)?;
        let (mut networks, mut places) = (self.book.networks()?, self.book.places()?);
        let mut network = order::network_of(attach.attachment)?;
        order::fits(&network, &networks)?;
        order::free(&place, &places)?;
        self.refuse_taken_ports(&place)?;

        let before =
            places.iter().position(|other| other.cell_id == place.cell_id).map(|at| places.remove(at));
        let moved = before
            .as_ref()
            .is_some_and(|before| (before.network_id, before.address) != (place.network_id, place.address));
        if moved {
            self.detach_now(place.cell_id)?;
            networks = self.book.networks()?;
        }
        places.push(place.clone());
        let known = networks.iter().find(|known| known.network_id == network.network_id);
        if let Some(known) = known {
            network = known.clone();
        }
        let had_uplink = network.uplink;
        network.uplink = plan_uplink(&network, &networks, &places)?;
        self.book.keep_network(&network)?;
        self.book.keep_place(&place)?;
        self.reach(point::ATTACH_RECORDED);

        let had_forwarded_port = before.is_some_and(|before| before.needs_uplink());
        if known.is_none() || network.uplink != had_uplink || place.needs_uplink() || had_forwarded_port {
            self.settle_node()?;
        }
        let router = self.settle(&network, &places, Depth::Rules)?;
        self.link(&place, &router, &cell)?;
        self.reach(point::VETH_MADE);
        let batch = cell_batch(&network, &place);
        cell.enter(|inside| {
            inside.ip(&batch)?;
            // Allows unprivileged pings in the cell.
            inside.set("ipv4/ping_group_range", "0 2147483647")
        })?;
        self.reach(point::IN_CELL);
        await_port(&router, &port(place.address))
    }

    /// Returns the namespace of a cell; never that of the node, whatever the process is.
    pub(crate) fn cell_namespace(&self, pid: u32) -> Result<Namespace, NetworkError> {
        let cell = Namespace::of_process(pid)?;
        let own = Namespace::of_process(std::process::id())?;
        if cell.identity()? == self.node.identity()? || cell.identity()? == own.identity()? {
            return Err(NetworkError::Refused(format!(
                "process {pid} is in the node's own network, not in a cell's: it is not the process of a cell"
            )));
        }
        Ok(cell)
    }

    /// Refuses ports on which the node itself listens: they must not be redirected to a cell.
    fn refuse_taken_ports(&self, place: &Place) -> Result<(), NetworkError> {
        if place.forwarded_ports.is_empty() {
            return Ok(());
        }
        let (tcp, udp) = self
            .node
            .enter(|inside| Ok((inside.listening(Protocol::Tcp)?, inside.listening(Protocol::Udp)?)))?;
        for forwarded in &place.forwarded_ports {
            let taken = match forwarded.protocol {
                Protocol::Tcp => &tcp,
                Protocol::Udp => &udp,
            };
            if taken.contains(&forwarded.node_port) {
                return Err(NetworkError::Refused(format!(
                    "the node itself listens on port {}: choose another for {}",
                    forwarded.node_port, place.cell_id
                )));
            }
        }
        Ok(())
    }

    /// Connects the cell to the bridge, if needed.
    fn link(&self, place: &Place, router: &Namespace, cell: &Namespace) -> Result<(), NetworkError> {
        let (port, mac) = (port(place.address), Mac::of(place.address).to_string());
        let outer = router.enter(|inside| inside.link(&port))?;
        let inner = cell.enter(|inside| inside.link(ETH0))?;
        let joined = match (&outer, &inner) {
            (Some(outer), Some(inner)) => {
                outer.link_index == Some(inner.ifindex)
                    && inner.link_index == Some(outer.ifindex)
                    && inner.address == mac
            }
            (None, Some(_)) => {
                return Err(NetworkError::Refused(format!(
                    "{} has an {ETH0} of another owner: a cell must be created without one",
                    place.cell_id
                )));
            }
            _ => false,
        };
        let mut batch = String::new();
        if !joined {
            // It belonged to a removed cell, or to an earlier incarnation of this one.
            router.enter(|inside| inside.remove_link(&port))?;
            batch.push_str(&format!(
                "link add name {port} mtu {mtu} type veth peer name {ETH0} address {mac} mtu {mtu} netns {cell}\n",
                mtu = self.mtu,
                cell = cell.path()
            ));
        }
        batch.push_str(&format!(
            "link set dev {port} alias {}\nlink set dev {port} master {BRIDGE}\n\
             link set dev {port} type bridge_slave learning off flood off\nlink set dev {port} up\n",
            place.cell_id
        ));
        router.enter(|inside| {
            inside.ip(&batch)?;
            inside.bridge(&format!("fdb replace {mac} dev {port} master static\n"))
        })
    }
}

/// Waits until the bridge forwards frames through a port. The kernel enables it a moment after both ends are up; an earlier
/// sender would lose the first packet, and with it a second.
fn await_port(router: &Namespace, name: &str) -> Result<(), NetworkError> {
    let began = Instant::now();
    loop {
        let Some(link) = router.enter(|inside| inside.link(name))? else {
            return Err(NetworkError::Refused(format!("{name} disappeared during setup: its cell is gone")));
        };
        if link.forwards() {
            return Ok(());
        }
        if began.elapsed() > READY {
            return Err(NetworkError::Unexpected {
                program: format!("ip link set dev {name} up"),
                said: format!(
                    "the bridge forwards nothing through it after {} seconds: retry",
                    READY.as_secs()
                ),
            });
        }
        thread::sleep(PAUSE);
    }
}

/// Returns the commands inside the cell. Quick acknowledgements save programs with small writes 40 ms for each.
fn cell_batch(network: &Network, place: &Place) -> String {
    let (subnet, address, gateway) = (network.subnet, place.address, network.subnet.gateway());
    let out = if place.egress {
        format!("route replace default via {gateway} dev {ETH0} quickack 1\n")
    } else {
        String::new()
    };
    format!(
        "link set dev lo up\naddr replace {address}/{} dev {ETH0}\nlink set dev {ETH0} up\n\
         route replace local {address} dev {ETH0} table local proto kernel scope host src {address} quickack 1\n\
         route replace {subnet} dev {ETH0} proto kernel scope link src {address} quickack 1\n{out}",
        subnet.prefix()
    )
}
