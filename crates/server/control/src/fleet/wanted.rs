//! Desired state of a node beside its sandboxes: the networks of its cells with all neighbours, and the users of its cells.

use std::collections::HashMap;

use jiff::Timestamp;
use muster_db::{Result, Store};
use muster_ids::NodeId;
use muster_model::Login;
use muster_wire::cell::{CellPeople, Neighbour, NetworkState, Wanted, WantedPerson};

/// Reads the desired state. The revision is read first: concurrent changes are sent again.
pub(super) async fn wanted(store: &Store, node: NodeId, now: Timestamp) -> Result<Wanted> {
    let (revision, _) = store.node_revisions(node).await?;
    let mut networks = Vec::new();
    for network in store.network_on_node(node).await? {
        let neighbours = store.network_neighbours(network.id).await?;
        let neighbours = neighbours.into_iter().filter_map(|member| {
            Some(Neighbour {
                cell_id: member.cell_id,
                name: member.name,
                address: network.address(member.host)?.to_string(),
                // A node without an address, such as a simulated one, is no neighbour.
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

/// SSH keys, each listed once. Many keys times many cells would otherwise multiply the response.
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
