//! Opens a cell, for a command and for a member alike: its secrets, address, node ports and creation.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::NodeId;
use muster_model::cell::{Cell, NodePort, free_host};
use muster_model::operation::Operation;
use muster_wire::cell::{CellSpec, Protocol};

/// Ports of a node that may be forwarded to cells; no service of the node itself listens in this range.
pub const NODE_PORTS: RangeInclusive<u16> = 30_000..=32_767;

/// Why a cell cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CellRefusal {
    /// The project has no secret of this name.
    NoSecret(String),
    /// Every address of the network is in use.
    NoAddress,
    /// Another cell has the node port that its ingress of this index asks for.
    PortTaken(usize),
    /// Every node port is in use.
    NoPort,
}

/// Checks whether a requested cell can be opened, assigns its address, and returns its node ports. Nothing is written, except for a
/// network that does not exist yet.
pub async fn assign(
    tx: &mut Tx,
    cell: &mut Cell,
    spec: &CellSpec,
    network: &str,
    now: Timestamp,
) -> Result<std::result::Result<Vec<NodePort>, CellRefusal>> {
    if let Some(name) = tx.secret_missing(cell.project_id, &cell.spec).await? {
        return Ok(Err(CellRefusal::NoSecret(name)));
    }
    // Also takes the lock under which addresses are assigned.
    let network = tx.network_ensure(cell.network_id, cell.tenant_id, cell.project_id, network, now).await?;
    cell.network_id = network.id;
    let Some(host) = free_host(&tx.cell_hosts(network.id).await?) else {
        return Ok(Err(CellRefusal::NoAddress));
    };
    cell.host = host;
    choose_ports(tx, cell.node_id, spec, &[]).await
}

/// Writes the cell, its ports and the operation that creates it. Returns the nodes of its neighbours, to notify after the commit.
pub async fn open(tx: &mut Tx, cell: &Cell, ports: &[NodePort], opened: &Operation) -> Result<Vec<NodeId>> {
    tx.cell_request(cell).await?;
    for port in ports {
        tx.node_port_insert(cell.node_id, cell.id, port).await?;
    }
    tx.operation_open(opened).await?;
    tx.bump_desired(cell.network_id, cell.node_id).await
}

/// Returns a node port for each exposed port of a cell: those that it holds, those that it asks for, and free ones for the rest.
pub(crate) async fn choose_ports(
    tx: &mut Tx,
    node: NodeId,
    spec: &CellSpec,
    held: &[NodePort],
) -> Result<std::result::Result<Vec<NodePort>, CellRefusal>> {
    let mut chosen: Vec<NodePort> = Vec::new();
    for (index, ingress) in spec.ingress.iter().enumerate() {
        let protocol = match ingress.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let cell_port = i64::from(ingress.port);
        if let Some(kept) = held.iter().find(|port| port.protocol == protocol && port.cell_port == cell_port)
        {
            chosen.push(kept.clone());
            continue;
        }
        let taken = tx.node_port_taken(node, protocol).await?;
        let is_free = |port: &i64| {
            let ours = chosen.iter().any(|other| other.protocol == protocol && other.port == *port);
            !ours && !taken.contains(port)
        };
        let port = match ingress.node_port.map(i64::from) {
            Some(asked) if !is_free(&asked) => return Ok(Err(CellRefusal::PortTaken(index))),
            Some(asked) => asked,
            None => match NODE_PORTS.map(i64::from).find(is_free) {
                Some(free) => free,
                None => return Ok(Err(CellRefusal::NoPort)),
            },
        };
        chosen.push(NodePort { protocol: protocol.to_owned(), port, cell_port });
    }
    Ok(Ok(chosen))
}
