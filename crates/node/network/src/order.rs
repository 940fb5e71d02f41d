//! Validates requests before any effect: names and addresses that pass can be used in rules and commands as they are.

use std::net::Ipv4Addr;

use muster_ids::CellId;
use muster_wire::cell::{Attachment, Ingress, NetworkState, Protocol};

use crate::address::{Subnet, VXLAN_PORT};
use crate::record::{ForwardedPort, Network, Peer, Place};
use crate::{Attach, NetworkError};

fn refused<T>(why: String) -> Result<T, NetworkError> {
    Err(NetworkError::Refused(why))
}

fn address_of(text: &str) -> Result<Ipv4Addr, NetworkError> {
    text.parse().map_err(|_| NetworkError::Refused(format!("{text:?} is not an IPv4 address")))
}

fn subnet_of(text: &str) -> Result<Subnet, NetworkError> {
    text.parse().map_err(NetworkError::Refused)
}

fn vni_of(vni: u32) -> Result<u32, NetworkError> {
    if (1..1 << 24).contains(&vni) {
        Ok(vni)
    } else {
        refused(format!("{vni} is not between 1 and 16777215"))
    }
}

/// Validates a host name label. Nothing else may reach `/etc/hosts`.
fn label_of(text: &str) -> Result<String, NetworkError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if fits {
        return Ok(text.to_owned());
    }
    refused(format!("{text:?} is not a name of lower-case letters, digits and hyphens"))
}

fn member_address(subnet: Subnet, text: &str) -> Result<Ipv4Addr, NetworkError> {
    let address = address_of(text)?;
    if subnet.offers(address) {
        Ok(address)
    } else {
        refused(format!("{address} is not an address for a cell of {subnet}"))
    }
}

/// Parses the desired state of a network.
pub(crate) fn network(state: &NetworkState) -> Result<Network, NetworkError> {
    let subnet = subnet_of(&state.subnet)?;
    let mut neighbours = Vec::with_capacity(state.neighbours.len());
    for neighbour in &state.neighbours {
        neighbours.push(Peer {
            cell_id: neighbour.cell_id,
            name: label_of(&neighbour.name)?,
            address: member_address(subnet, &neighbour.address)?,
            node: address_of(&neighbour.node_address)?,
        });
    }
    neighbours.sort_by_key(|peer| peer.address);
    if let Some(twice) = neighbours.windows(2).find(|pair| pair[0].address == pair[1].address) {
        return refused(format!("{} is the address of two cells in {}", twice[0].address, state.network_id));
    }
    Ok(Network {
        network_id: state.network_id,
        vni: vni_of(state.vni)?,
        subnet,
        name: Some(label_of(&state.name)?),
        neighbours,
        uplink: None,
    })
}

/// Parses the part of a network that is in a cell's attachment.
pub(crate) fn network_of(attachment: &Attachment) -> Result<Network, NetworkError> {
    Ok(Network {
        network_id: attachment.network_id,
        vni: vni_of(attachment.vni)?,
        subnet: subnet_of(&attachment.subnet)?,
        name: None,
        neighbours: Vec::new(),
        uplink: None,
    })
}

/// Parses a cell's attachment.
pub(crate) fn place(attach: &Attach<'_>) -> Result<Place, NetworkError> {
    let attachment = attach.attachment;
    let forwarded_ports =
        attach.ingress.iter().map(|ingress| forwarded(attach.cell_id, ingress)).collect::<Result<_, _>>()?;
    Ok(Place {
        cell_id: attach.cell_id,
        network_id: attachment.network_id,
        address: member_address(subnet_of(&attachment.subnet)?, &attachment.address)?,
        egress: attach.egress,
        forwarded_ports,
    })
}

fn forwarded(cell_id: CellId, ingress: &Ingress) -> Result<ForwardedPort, NetworkError> {
    let Some(node_port) = ingress.node_port else {
        return refused(format!(
            "port {} of {cell_id} has no port at the node: choose one before it is attached",
            ingress.port
        ));
    };
    if ingress.port == 0 || node_port == 0 {
        return refused(format!("{cell_id} declares port 0, which is not reachable"));
    }
    if ingress.protocol == Protocol::Udp && node_port == VXLAN_PORT {
        return refused(format!("port {VXLAN_PORT} is reserved for the nodes: choose another for {cell_id}"));
    }
    Ok(ForwardedPort { protocol: ingress.protocol, port: ingress.port, node_port })
}

/// Checks a network for conflicts with the others on the node.
pub(crate) fn fits(network: &Network, others: &[Network]) -> Result<(), NetworkError> {
    for other in others {
        if other.network_id == network.network_id {
            if (other.vni, other.subnet) != (network.vni, network.subnet) {
                return refused(format!(
                    "{} has number {} and {} here, so it cannot get {} and {}: detach its cells and remove it first",
                    network.network_id, other.vni, other.subnet, network.vni, network.subnet
                ));
            }
        } else if other.vni == network.vni {
            return refused(format!(
                "{} cannot have number {}: {} has it on this node",
                network.network_id, network.vni, other.network_id
            ));
        }
    }
    Ok(())
}

/// Checks an attachment for conflicts with the existing ones.
pub(crate) fn free(place: &Place, others: &[Place]) -> Result<(), NetworkError> {
    for other in others.iter().filter(|other| other.cell_id != place.cell_id) {
        if (other.network_id, other.address) == (place.network_id, place.address) {
            return refused(format!(
                "{} is in use by {}: detach that cell first",
                place.address, other.cell_id
            ));
        }
    }
    let mut taken: Vec<(CellId, &ForwardedPort)> = Vec::new();
    for other in others.iter().filter(|other| other.cell_id != place.cell_id) {
        taken.extend(other.forwarded_ports.iter().map(|forwarded| (other.cell_id, forwarded)));
    }
    for forwarded in &place.forwarded_ports {
        let same = |(_, other): &&(CellId, &ForwardedPort)| {
            other.protocol == forwarded.protocol && other.node_port == forwarded.node_port
        };
        if let Some((holder, _)) = taken.iter().find(same) {
            return refused(format!(
                "port {} of the node is already forwarded to {holder}: choose another",
                forwarded.node_port
            ));
        }
        taken.push((place.cell_id, forwarded));
    }
    Ok(())
}
