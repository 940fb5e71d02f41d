//! A cell on the wire: its image and network, and the agent's observations of it. Its specification is `muster_spec`.

use muster_ids::{AllocationId, CellId, NetworkId, ProjectId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use muster_spec::{
    CellRestart, CellSpec, File, Ingress, Probe, ProbeBy, Protocol, Restart, Root, SecretFile, Service, Start,
};

/// Source of an image and the trust policy for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pull {
    /// Repository, as in the registry's paths: `acme.ml/train`.
    pub repository: String,
    /// Digest of its manifest. Nodes ignore tags.
    pub digest: String,
    /// Trust policy.
    pub trust: Trust,
}

/// Trust policy of an artifact: the accepted keys, and whether a signature is required.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trust {
    /// Whether the artifact needs a signature by one of the keys to run. One that is signed only by other keys never runs.
    pub required: bool,
    /// Cache key of a verdict beside the digest. It changes with the keys and the rules.
    pub policy: String,
    /// The publisher's keys.
    pub keys: Vec<TrustKey>,
}

/// A publisher's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrustKey {
    /// Which.
    pub id: String,
    /// Public key, as PEM.
    pub public_key: String,
    /// Whether the key is revoked.
    pub revoked: bool,
}

/// Attachment of a cell to a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    /// Network id.
    pub network_id: NetworkId,
    /// VXLAN network identifier, 1 to 16777215.
    pub vni: u32,
    /// Subnet: `10.64.16.0/20`.
    pub subnet: String,
    /// The cell's address in the subnet.
    pub address: String,
}

/// One member of a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Neighbour {
    /// Which cell.
    pub cell_id: CellId,
    /// Its name.
    pub name: String,
    /// Its address in the network.
    pub address: String,
    /// Address of its node, the destination of packets for it.
    pub node_address: String,
}

/// Desired state of a network on a node: all of its members, on every node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkState {
    /// Which.
    pub network_id: NetworkId,
    /// Name of the network, part of its members' DNS names: `cell.network.muster.internal`.
    pub name: String,
    /// VXLAN network identifier.
    pub vni: u32,
    /// Subnet.
    pub subnet: String,
    /// All members.
    pub neighbours: Vec<Neighbour>,
}

/// Desired users of the cells of one project that have `people` set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectPeople {
    /// Which project.
    pub project_id: ProjectId,
    /// Public keys, without options and comments. Each is sent once, however many cells it counts in.
    pub keys: Vec<String>,
    /// Users with access to all of these cells.
    pub people: Vec<DesiredUser>,
    /// The cells, by allocation.
    pub allocations: Vec<AllocationPeople>,
}

/// Desired users of the cells of one allocation, beside those of its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AllocationPeople {
    /// The cells.
    pub cells: Vec<CellId>,
    /// Further users, and further keys of users of the project.
    pub people: Vec<DesiredUser>,
}

/// A user with access to a cell, on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DesiredUser {
    /// The name.
    pub name: String,
    /// The number, user and group alike.
    pub uid: u32,
    /// Their public keys, as indices into the list of the project.
    pub keys: Vec<u32>,
}

/// A user with access to a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The number, user and group alike.
    pub uid: u32,
    /// Public keys, without options and comments.
    pub keys: Vec<String>,
}

/// Desired state of a node beside its sandboxes. It is complete with its last page: anything not listed is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DesiredState {
    /// Revision, raised with each change. That of the first page is the one that is reached with the last.
    pub revision: i64,
    /// Networks of its cells.
    pub networks: Vec<NetworkState>,
    /// Users of those of its cells that have `people` set, by project.
    pub people: Vec<ProjectPeople>,
    /// Where the next page begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub next: Option<String>,
}

impl DesiredState {
    /// Adds the next page.
    pub fn add_page(&mut self, page: Self) {
        self.networks.extend(page.networks);
        self.people.extend(page.people);
        self.next = page.next;
    }

    /// Returns the users of a cell with their keys, or none if the cell has no users.
    pub fn people_of(&self, cell: CellId) -> Option<Vec<Person>> {
        let of_cell = |project: &ProjectPeople| {
            project.allocations.iter().position(|allocation| allocation.cells.contains(&cell))
        };
        let (project, at) = self.people.iter().find_map(|project| Some((project, of_cell(project)?)))?;
        let key = |position: &u32| project.keys.get(usize::try_from(*position).ok()?).cloned();
        let mut people: Vec<Person> = Vec::new();
        for person in project.people.iter().chain(&project.allocations[at].people) {
            let keys = person.keys.iter().filter_map(key);
            match people.iter_mut().find(|known| known.uid == person.uid) {
                Some(known) => known.keys.extend(keys),
                None => {
                    people.push(Person { name: person.name.clone(), uid: person.uid, keys: keys.collect() })
                }
            }
        }
        people.sort_by_key(|person| person.uid);
        Some(people)
    }
}

/// A cell found by an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct CellRef {
    /// Its allocation.
    pub allocation_id: AllocationId,
    /// Which.
    pub cell_id: CellId,
    /// Its incarnation.
    pub incarnation: i64,
}

/// An agent's observations of a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellFindings {
    /// Whether it is running.
    pub present: bool,
    /// Incarnation; 0 if there is none.
    pub incarnation: i64,
    /// PID of its first process on the node; 0 if there is none.
    pub pid: u32,
    /// Address of its network interface.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub address: Option<String>,
    /// Devices it may open.
    pub devices: Vec<String>,
    /// Its services.
    pub services: Vec<ServiceFindings>,
    /// Checks that were made, and where.
    pub checked: Vec<String>,
    /// Remains of the cell: processes, mounts, namespaces, links, rules, control groups, files.
    pub left: Vec<String>,
    /// Counts for a cell that is not running. With nothing alive, they prove its death.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub death: Option<CellDeath>,
}

/// Counts for a cell that is not running, taken from the kernel's own lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellDeath {
    /// Boot id of the machine at the time of the count: the cell's own boot or a later one.
    pub boot_id: String,
    /// Processes of the cell: in its control groups, of its id range, or monitors of its services.
    pub processes: u32,
    /// Namespaces of the cell that a process still holds. Its mounts live in one of them.
    pub namespaces: u32,
    /// Mounts that the node keeps for the cell outside of it. Nothing runs from them; destroying the cell removes them.
    pub mounts: u32,
}

impl CellDeath {
    /// Reports whether the cell is proved dead: no process and no namespace is left.
    pub fn is_proved(&self) -> bool {
        self.processes == 0 && self.namespaces == 0
    }
}

/// An agent's observations of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceFindings {
    /// Which.
    pub name: String,
    /// State.
    pub state: ServiceState,
    /// PID on the node; 0 if there is none.
    pub pid: u32,
    /// Whether its probe reports it ready.
    pub ready: bool,
    /// Number of restarts.
    pub restarts: u32,
    /// Last exit status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub exit: Option<i32>,
    /// Message, above all the reason why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub message: Option<String>,
}

/// State of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Not requested yet, or stopped on request.
    Idle,
    /// Waiting for other services.
    Waiting,
    /// Running.
    Running,
    /// Ended; about to be restarted.
    Restarting,
    /// Ended for good.
    Ended,
}
