//! What a node should have beside its places: the networks of its cells with everybody in them, and the keys of people.
//!
//! It is read off the tables whenever an agent is behind, whole, and never kept: an agent that missed any number of changes,
//! or lost everything, is right again after one answer.

use std::collections::BTreeMap;

use muster_ids::{CellId, NodeId};
use muster_node_api::cell::{CellKeys, Neighbour, NetworkState, Wanted};
use muster_store::{Result, Store};

/// Reads it. The number is read first: what changes meanwhile is told again.
pub(super) async fn wanted(store: &Store, node: NodeId) -> Result<Wanted> {
    let (revision, _) = store.wanted(node).await?;
    let mut networks = Vec::new();
    for network in store.network_on_node(node).await? {
        let neighbours = store.network_neighbours(network.id).await?;
        let neighbours = neighbours.into_iter().filter_map(|member| {
            Some(Neighbour {
                cell_id: member.cell_id,
                name: member.name,
                address: network.address(member.host)?.to_string(),
                // A node that is reached by nobody, as simulated ones are, is nobody's neighbour.
                node_address: member.node_address?,
            })
        });
        networks.push(NetworkState {
            network_id: network.id,
            neighbours: neighbours.collect(),
            name: network.name,
            vni: u32::try_from(network.vni).unwrap_or_default(),
            subnet: network.subnet,
        });
    }
    let mut keys: BTreeMap<CellId, String> = BTreeMap::new();
    for (cell, key) in store.ssh_key_of_node(node).await? {
        let text = keys.entry(cell).or_default();
        if let Some(key) = key {
            text.push_str(&key);
            text.push('\n');
        }
    }
    let keys = keys.into_iter().map(|(cell_id, authorized_keys)| CellKeys { cell_id, authorized_keys });
    Ok(Wanted { revision, networks, keys: keys.collect() })
}
