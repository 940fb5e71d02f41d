//! Desired state of a node beside its sandboxes: the networks of its cells with all neighbours, and the users of its cells.
//!
//! It is sent in pages that are bounded by bytes, so that one tenant's networks and users never keep the changes of others from
//! a node: a network is the smallest unit, and so are the users of one project. Both are bounded: a network by its addresses,
//! the users of a project by [`LOGINS_OF_PROJECT`](muster_db::LOGINS_OF_PROJECT) and their keys.

use std::collections::HashMap;

use jiff::Timestamp;
use muster_db::{PeopleCell, Store};
use muster_ids::{NetworkId, NodeId, ProjectId};
use muster_model::Login;
use muster_model::cell::Network;
use muster_wire::cell::{
    AllocationPeople, DesiredState, DesiredUser, Neighbour, NetworkState, ProjectPeople,
};
use serde::Serialize;

use crate::{Error, Result};

/// A page ends with the unit that exceeds so many bytes. The agent's limit of an answer is eight times as much.
const PAGE_BYTES: usize = 2 << 20;

/// Position after a unit: all networks come first, then the users of all projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Network(NetworkId),
    Project(ProjectId),
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ')? {
            ("network", id) => id.parse().ok().map(Self::Network),
            ("project", id) => id.parse().ok().map(Self::Project),
            _ => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::Network(id) => format!("network {id}"),
            Self::Project(id) => format!("project {id}"),
        }
    }
}

/// Reads a page of the desired state. The revision is read first: concurrent changes are sent again.
pub(super) async fn desired(
    store: &Store,
    node: NodeId,
    after: Option<&str>,
    now: Timestamp,
) -> Result<DesiredState> {
    let unknown = || Error::field("/desired_after", "this is not a page of the desired state");
    let after = after.map(|text| Position::parse(text).ok_or_else(unknown)).transpose()?;
    let (revision, _) = store.node_revisions(node).await?;
    let mut page = DesiredState { revision, ..DesiredState::default() };
    let (mut bytes, mut last) = (0, None);
    if !matches!(after, Some(Position::Project(_))) {
        for network in store.network_on_node(node).await? {
            if matches!(after, Some(Position::Network(after)) if network.id <= after) {
                continue;
            }
            if bytes > PAGE_BYTES {
                page.next = last.map(Position::text);
                return Ok(page);
            }
            last = Some(Position::Network(network.id));
            let state = network_state(store, network).await?;
            bytes += length(&state);
            page.networks.push(state);
        }
    }
    let cells = store.people_cells(node).await?;
    for cells in cells.chunk_by(|one, next| one.project_id == next.project_id) {
        let project = cells[0].project_id;
        if matches!(after, Some(Position::Project(after)) if project <= after) {
            continue;
        }
        if bytes > PAGE_BYTES {
            page.next = last.map(Position::text);
            return Ok(page);
        }
        last = Some(Position::Project(project));
        let people = project_people(store, cells, now).await?;
        bytes += length(&people);
        page.people.push(people);
    }
    Ok(page)
}

fn length(unit: &impl Serialize) -> usize {
    serde_json::to_vec(unit).map_or(0, |text| text.len())
}

async fn network_state(store: &Store, network: Network) -> Result<NetworkState> {
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
    Ok(NetworkState {
        network_id: network.id,
        neighbours: neighbours.collect(),
        name: network.name,
        vni: u32::try_from(network.vni).unwrap_or_default(),
        subnet: network.subnet,
    })
}

/// Returns the users of the cells of one project.
async fn project_people(store: &Store, cells: &[PeopleCell], now: Timestamp) -> Result<ProjectPeople> {
    let (tenant_id, project_id) = (cells[0].tenant_id, cells[0].project_id);
    let mut found = store.people_of_project(tenant_id, project_id, now).await?;
    let mut keys = Keys::default();
    let mut person = |(login, of): (Login, Vec<String>)| DesiredUser {
        name: login.name,
        uid: login.uid,
        keys: of.into_iter().map(|key| keys.position(key)).collect(),
    };
    let people = std::mem::take(&mut found.everywhere).into_iter().map(&mut person).collect();
    let allocations = cells
        .chunk_by(|one, next| one.allocation_id == next.allocation_id)
        .map(|cells| AllocationPeople {
            cells: cells.iter().map(|cell| cell.cell_id).collect(),
            people: found
                .in_allocation
                .remove(&cells[0].allocation_id)
                .into_iter()
                .flatten()
                .map(&mut person)
                .collect(),
        })
        .collect();
    Ok(ProjectPeople { project_id, people, allocations, keys: keys.list })
}

/// SSH keys, each listed once. Many keys times many allocations would otherwise multiply the response.
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
