//! A cell: the isolated sandbox of one member, or of a user's shell, inside an allocation. Its specification and the agent's
//! observations of it.

use std::collections::BTreeMap;

use muster_ids::{AllocationId, CellId, NetworkId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Immutable specification of a cell. A changed specification is a new incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Root file system.
    pub root: Root,
    /// Supervised services. A cell without any serves commands and shells.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub services: Vec<Service>,
    /// Files written before any process starts.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub files: Vec<File>,
    /// Directories that survive incarnations. They are wiped with the allocation.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub state: Vec<String>,
    /// Directories shared with the other cells of the network, on the file system that the nodes share. Only cells of an
    /// app's members have them, as declared in the manifest; decommissioning the app removes them.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub shared: Vec<String>,
    /// Environment variables of every process.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// GPUs of the allocation that the cell may use. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_items = 64)]
    pub gpus: Option<Vec<u32>>,
    /// Whether processes may reach addresses outside the network, through the node.
    #[serde(default)]
    #[schema(required = false)]
    pub egress: bool,
    /// Ports reachable from outside the network, at the node.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub ingress: Vec<Ingress>,
    /// Whether the cell has the project's users: their names and ids in `/etc/muster/passwd` and `/etc/muster/group`, their
    /// SSH keys in `/etc/muster/authorized_keys`. Commands then run as the calling user by default, not as root.
    #[serde(default)]
    #[schema(required = false)]
    pub people: bool,
    /// Secrets, each a file in `/run/muster/secrets` that is kept in memory only.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub secrets: Vec<SecretFile>,
    /// Restart policy for the cell itself, after its first process dies or its node reboots.
    #[serde(default, skip_serializing_if = "CellRestart::is_never")]
    #[schema(required = false)]
    pub restart: CellRestart,
    /// Seconds without contact to the platform after which the node destroys the cell, so that a replacement elsewhere never
    /// runs beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 5, maximum = 86400)]
    pub stop_after_partition: Option<u32>,
}

/// A secret of a cell: a file of mode 0400. The specification carries only its name; the node requests the content by this
/// name, for this incarnation of the cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretFile {
    /// Project secret by name or id, or runtime secret by id.
    #[schema(max_length = 100)]
    pub secret: String,
    /// File name.
    #[schema(pattern = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,126}$")]
    pub file: String,
    /// Its owner in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// Its group in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
}

/// Source of a cell's file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Root {
    /// Image, by the digest of its manifest: `sha256:…`.
    Image(String),
    /// Directories of the node, read-only, with an `/etc` made for the cell. The node's operator allows them.
    Host(Vec<String>),
}

/// A process that runs for as long as its cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// Program path and arguments. No shell interprets them.
    #[schema(min_items = 1, max_items = 256)]
    pub command: Vec<String>,
    /// As which user of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// As which group of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
    /// Environment variables in addition to the cell's.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Working directory. Default: the image's own, or `/`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 4096)]
    pub working_directory: Option<String>,
    /// Start condition.
    #[serde(default)]
    #[schema(required = false)]
    pub start: Start,
    /// Restart policy.
    #[serde(default)]
    #[schema(required = false)]
    pub restart: Restart,
    /// Services that must be ready before this one starts.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub after: Vec<String>,
    /// Readiness probe. Without one, the service is ready after running for a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub ready: Option<Probe>,
    /// Seconds to stop before it is killed.
    #[serde(default = "ten")]
    #[schema(required = false, maximum = 600)]
    pub stop_seconds: u32,
}

fn ten() -> u32 {
    10
}

fn one() -> u32 {
    1
}

/// Restart policy of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellRestart {
    /// Leave it stopped: its owner decides.
    #[default]
    Never,
    /// Recreate it in its sandbox as a new incarnation with its state directories, at most three times within an hour.
    Always,
}

impl CellRestart {
    /// Reports whether an ended cell is left stopped.
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// Start condition of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Start with the cell.
    #[default]
    WithCell,
    /// Start on request. The cell counts as complete without it.
    OnRequest,
}

/// Restart policy of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Never restart.
    Never,
    /// Restart after a nonzero exit status.
    #[default]
    OnFailure,
    /// Restart after every exit.
    Always,
}

/// Readiness probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Probe method.
    pub by: ProbeBy,
    /// Interval between two attempts.
    #[serde(default = "one")]
    #[schema(required = false, minimum = 1, maximum = 300)]
    pub every_seconds: u32,
    /// Timeout of one attempt.
    #[serde(default = "ten")]
    #[schema(required = false, minimum = 1, maximum = 300)]
    pub timeout_seconds: u32,
}

/// Probe method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProbeBy {
    /// Command in the cell that must exit with zero.
    Command(Vec<String>),
    /// TCP connection to this port of the cell.
    Tcp(u16),
    /// HTTP GET of this path at this port of the cell; a status of 200 to 399 succeeds.
    Http {
        /// The port.
        #[schema(minimum = 1)]
        port: u16,
        /// The path.
        #[schema(max_length = 1024)]
        path: String,
    },
}

/// A file in a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Path.
    #[schema(max_length = 4096)]
    pub path: String,
    /// Content.
    #[schema(max_length = 262_144)]
    pub text: String,
    /// Mode, in octal digits.
    #[serde(default = "plain_mode")]
    #[schema(required = false, pattern = "^[0-7]{3,4}$")]
    pub mode: String,
    /// Its owner in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// Its group in the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
}

fn plain_mode() -> String {
    "644".to_owned()
}

/// A port of a cell that is reachable from outside its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// The cell's port.
    #[schema(minimum = 1)]
    pub port: u16,
    /// Transport protocol.
    #[serde(default)]
    #[schema(required = false)]
    pub protocol: Protocol,
    /// The node's port. Default: chosen by the platform.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 1)]
    pub node_port: Option<u16>,
}

/// Transport protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// A cell in a task for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellOrder {
    /// Which.
    pub cell_id: CellId,
    /// Name of the cell: its host name, and its DNS name in the network.
    pub name: String,
    /// Incarnation of the cell; the task carries that of the allocation.
    pub incarnation: i64,
    /// Whether destroying the cell keeps its state directories, as it does when the cell is recreated.
    #[serde(default)]
    #[schema(required = false)]
    pub keep_state: bool,
    /// Specification. Absent when inspecting or destroying.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub spec: Option<CellSpec>,
    /// Attachment to a network; absent for a cell that has only its loopback interface.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub attachment: Option<Attachment>,
    /// Source of its image and the trust policy for it; absent for an image that the node's operator put there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub pull: Option<Pull>,
}

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

/// Desired users of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellPeople {
    /// Which cell.
    pub cell_id: CellId,
    /// Users with access to it.
    pub people: Vec<WantedPerson>,
}

/// A user with access to a cell, on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WantedPerson {
    /// The name.
    pub name: String,
    /// The number, user and group alike.
    pub uid: u32,
    /// Their public keys, as indices into the list of `Wanted`, so that a key is sent once for all cells.
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

/// Desired state of a node beside its sandboxes. It is complete: anything not listed is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Wanted {
    /// Revision, raised with each change.
    pub revision: i64,
    /// Networks of its cells.
    pub networks: Vec<NetworkState>,
    /// Users of those of its cells that have `people` set.
    pub people: Vec<CellPeople>,
    /// Public keys of all users, without options and comments.
    #[serde(default)]
    #[schema(required = false)]
    pub keys: Vec<String>,
}

impl Wanted {
    /// Returns the users of a cell with their keys, or none if the cell has no users.
    pub fn people_of(&self, cell: CellId) -> Option<Vec<Person>> {
        let found = self.people.iter().find(|people| people.cell_id == cell)?;
        let key = |position: &u32| self.keys.get(usize::try_from(*position).ok()?).cloned();
        let person = |person: &WantedPerson| Person {
            name: person.name.clone(),
            uid: person.uid,
            keys: person.keys.iter().filter_map(key).collect(),
        };
        Some(found.people.iter().map(person).collect())
    }
}

/// A cell found by an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct CellPlace {
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
