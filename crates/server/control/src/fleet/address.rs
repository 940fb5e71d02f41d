//! The address under which other nodes reach a node. Tenants' packets go there, so an operator approves it like hardware:
//! once the node is approved, its agent alone cannot change it.

use std::net::{IpAddr, Ipv4Addr};

use muster_db::Tx;
use muster_model::event::EventType;
use muster_model::node::Node;
use serde_json::{Value, json};

use crate::commit::told;
use crate::{Cx, Error};

/// Validates the address that an agent reports.
pub(super) fn validate_address(address: Option<&str>) -> crate::Result<()> {
    match address.map(str::parse::<Ipv4Addr>) {
        Some(Err(_)) => Err(Error::field("/address", "it is not an IPv4 address")),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Records the reported address. A node that was approved before it reported one adopts the first; any other change waits
/// for an operator, with one event.
pub(super) async fn report_address(
    cx: &Cx,
    tx: &mut Tx,
    node: &Node,
    reported: &str,
) -> muster_db::Result<Option<(EventType, Value)>> {
    let peer = cx.address.map(|peer| peer.to_canonical());
    tx.node_report_address(node.id, reported, peer.map(|peer| peer.to_string()).as_deref()).await?;
    if let Some(peer) = peer.filter(|peer| is_elsewhere(*peer, reported)) {
        tracing::warn!(node = %node.id, name = node.name, reported, %peer, "a node reports a different address than it connects from");
    }
    if node.address.as_deref() == Some(reported) || tx.node_adopt_address(node.id, reported).await? {
        if node.address.is_none() {
            tx.bump_desired_node(node.id).await?;
        }
        return Ok(None);
    }
    if node.reported_address.as_deref() == Some(reported) {
        return Ok(None);
    }
    let holder = tx.node_with_address(reported).await?.filter(|holder| *holder != node.id);
    // The first report of an unapproved node is no change, unless the address belongs to another node.
    if node.approved_at.is_none() && holder.is_none() {
        return Ok(None);
    }
    let data = told(&[
        ("name", Some(json!(node.name))),
        ("address", node.address.as_ref().map(|address| json!(address))),
        ("reported_address", Some(json!(reported))),
        ("peer_address", peer.map(|peer| json!(peer.to_string()))),
        ("held_by", holder.map(|holder| json!(holder))),
    ]);
    Ok(Some((EventType::NodeAddressChanged, data)))
}

/// Reports whether a connection came from another address than the reported one. That is normal behind NAT and on a single
/// machine.
fn is_elsewhere(peer: IpAddr, reported: &str) -> bool {
    peer.is_ipv4() && !peer.is_loopback() && peer.to_string() != reported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_at_another_address_is_noticed_but_for_loopback_and_ipv6() {
        let elsewhere = |peer: &str| is_elsewhere(peer.parse().unwrap(), "192.0.2.1");
        assert!(elsewhere("192.0.2.2"));
        for same in ["192.0.2.1", "127.0.0.1", "2001:db8::1"] {
            assert!(!elsewhere(same), "{same}");
        }
    }
}
