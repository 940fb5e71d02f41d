//! What a node should have beside its places: the networks of its cells with everybody in them, and their people.
//!
//! It is read off the tables whenever an agent is behind, whole, and never kept: an agent that missed any number of changes,
//! or lost everything, is right again after one answer.

use std::collections::HashMap;

use jiff::Timestamp;
use muster_db::{Result, Store};
use muster_ids::NodeId;
use muster_model::Login;
use muster_wire::cell::{CellPeople, Neighbour, NetworkState, Wanted, WantedPerson};

/// Reads it. The number is read first: what changes meanwhile is told again.
pub(super) async fn wanted(store: &Store, node: NodeId, now: Timestamp) -> Result<Wanted> {
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
    let mut keys = Keys::default();
    let mut person = |(login, of): (Login, Vec<String>)| WantedPerson {
        name: login.name,
        uid: login.uid,
        keys: of.into_iter().map(|key| keys.position(key)).collect(),
    };
    let people = store
        .people_of_node(node, now)
        .await?
        .into_iter()
        .map(|(cell_id, people)| CellPeople {
            cell_id,
            people: people.into_iter().map(&mut person).collect(),
        })
        .collect();
    Ok(Wanted { revision, networks, people, keys: keys.list })
}

/// Every key once. A project with many keys and many cells would otherwise send the product of both.
#[derive(Default)]
struct Keys {
    list: Vec<String>,
    positions: HashMap<String, u32>,
}

impl Keys {
    fn position(&mut self, key: String) -> u32 {
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        *self.positions.entry(key).or_insert_with_key(|key| {
            self.list.push(key.clone());
            next
        })
    }
}
