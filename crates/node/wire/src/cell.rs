//! A cell: the isolated place of one member, or of a person's shell, inside an allocation. What it is made of, and what an agent
//! sees of it.

use std::collections::BTreeMap;

use muster_ids::{AllocationId, CellId, NetworkId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a cell is made of. It never changes: another one is another incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Its file system.
    pub root: Root,
    /// What runs in it, under supervision. None at all is a place for commands and shells.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub services: Vec<Service>,
    /// Files that are written before anything runs.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub files: Vec<File>,
    /// Directories that survive incarnations, and are wiped with the allocation.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub state: Vec<String>,
    /// Directories that it has in common with the other cells of its network, on the file system that the nodes share. Only the cells
    /// of an app's members have them, as its manifest says; they are removed when the app is decommissioned.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub shared: Vec<String>,
    /// What every process in it finds in its environment.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Which GPUs of the allocation it may use; all of them if this is not said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_items = 64)]
    pub gpus: Option<Vec<u32>>,
    /// Whether what runs in it may reach addresses outside its network, through the node.
    #[serde(default)]
    #[schema(required = false)]
    pub egress: bool,
    /// Ports that can be reached from outside its network, at the node.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub ingress: Vec<Ingress>,
    /// Whether it has the project's people: their names and numbers in `/etc/muster/passwd` and `/etc/muster/group`, their SSH keys in
    /// `/etc/muster/authorized_keys`. Whoever runs a command in it is then who they are, and not root, unless they say otherwise.
    #[serde(default)]
    #[schema(required = false)]
    pub people: bool,
    /// Secrets that it is given, each as a file in `/run/muster/secrets` that is kept in memory and nowhere else.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub secrets: Vec<SecretFile>,
    /// What happens when the cell itself ends, by the death of its first process or a reboot of its node.
    #[serde(default, skip_serializing_if = "CellRestart::is_never")]
    #[schema(required = false)]
    pub restart: CellRestart,
    /// After so many seconds without the platform its node destroys it: what takes its place elsewhere must not find it alive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 5, maximum = 86400)]
    pub stop_after_partition: Option<u32>,
}

/// A secret, as a cell is given it: a file of mode 0400. It is named here and said nowhere: the node asks for it by this name,
/// for this very incarnation of the cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretFile {
    /// The secret: one of the project's by its name or id, or a runtime secret by its id.
    #[schema(max_length = 100)]
    pub secret: String,
    /// The name of the file.
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

/// Where a cell's file system comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Root {
    /// An image, by the digest of its manifest: `sha256:…`.
    Image(String),
    /// Directories of the node, read-only, with an `/etc` that is made for the cell. The node's operator says which there are.
    Host(Vec<String>),
}

/// Something that runs in a cell for as long as the cell does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name.
    #[schema(pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    pub name: String,
    /// The program, by its path, and its arguments. No shell looks at them.
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
    /// What it finds in its environment beside what the cell has.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Where it starts; the image's own directory, or `/`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, max_length = 4096)]
    pub working_directory: Option<String>,
    /// When it is started.
    #[serde(default)]
    #[schema(required = false)]
    pub start: Start,
    /// What happens when it ends.
    #[serde(default)]
    #[schema(required = false)]
    pub restart: Restart,
    /// Services that must be ready before it starts.
    #[serde(default)]
    #[schema(required = false, max_items = 32)]
    pub after: Vec<String>,
    /// How it is known to be ready. Without this it is so when it has run for a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false)]
    pub ready: Option<Probe>,
    /// How long it may take to stop before it is killed.
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

/// What happens when a cell ends by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellRestart {
    /// Nothing: its owner decides.
    #[default]
    Never,
    /// The platform makes it anew in its place, with its state directories, as a new incarnation; three times within an hour at most.
    Always,
}

impl CellRestart {
    /// Whether it is left as it is.
    pub fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// When a service is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// With its cell.
    #[default]
    WithCell,
    /// When somebody asks for it; until then the cell does without, and is whole all the same.
    OnRequest,
}

/// What happens when a service ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Nothing.
    Never,
    /// It is started again if its exit status was not zero.
    #[default]
    OnFailure,
    /// It is started again.
    Always,
}

/// How something is asked whether it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// What is tried.
    pub by: ProbeBy,
    /// How long to wait between two tries.
    #[serde(default = "one")]
    #[schema(required = false, minimum = 1, maximum = 300)]
    pub every_seconds: u32,
    /// How long one try may take.
    #[serde(default = "ten")]
    #[schema(required = false, minimum = 1, maximum = 300)]
    pub timeout_seconds: u32,
}

/// What a probe tries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ProbeBy {
    /// A command in the cell, which must end with zero.
    Command(Vec<String>),
    /// A connection to this port of the cell.
    Tcp(u16),
    /// A GET of this path at this port of the cell, which must be answered with 200 to 399.
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
    /// Where.
    #[schema(max_length = 4096)]
    pub path: String,
    /// What it says.
    #[schema(max_length = 262_144)]
    pub text: String,
    /// Its mode, in octal digits.
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

/// A port of a cell that can be reached from outside its network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ingress {
    /// The cell's port.
    #[schema(minimum = 1)]
    pub port: u16,
    /// How it is spoken to.
    #[serde(default)]
    #[schema(required = false)]
    pub protocol: Protocol,
    /// The node's port; the platform chooses one if this is not said.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false, nullable = false, minimum = 1)]
    pub node_port: Option<u16>,
}

/// A transport.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// A cell, as an agent is asked to make it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellOrder {
    /// Which.
    pub cell_id: CellId,
    /// Its name: its host name, and how others in the network find it.
    pub name: String,
    /// The incarnation of the cell; that of its allocation is the task's.
    pub incarnation: i64,
    /// Whether its state directories stay when it is destroyed: they do when it is made anew.
    #[serde(default)]
    #[schema(required = false)]
    pub keep_state: bool,
    /// What it is made of. Looking and destroying go without.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub spec: Option<CellSpec>,
    /// Its place in a network; none for a cell that only reaches itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub attachment: Option<Attachment>,
    /// Where its image comes from and why it may run; none for an image that the node's operator put there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub pull: Option<Pull>,
}

/// Where an image comes from, and why it may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pull {
    /// The repository, as the registry's paths have it: `acme.ml/train`.
    pub repository: String,
    /// The digest of its manifest. Tags mean nothing to a node.
    pub digest: String,
    /// Whose signatures count.
    pub trust: Trust,
}

/// Whose signatures count on an artifact, and whether it needs one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Trust {
    /// Whether it may run only with a signature by one of the keys. One that has signatures, and none by such a key, never runs.
    pub required: bool,
    /// What a verdict is remembered under beside the digest: it is another one whenever the keys or the rules are.
    pub policy: String,
    /// The publisher's keys.
    pub keys: Vec<TrustKey>,
}

/// A publisher's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrustKey {
    /// Which.
    pub id: String,
    /// The key, as PEM.
    pub public_key: String,
    /// Whether it counts no more.
    pub revoked: bool,
}

/// A cell's place in a network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    /// Which network.
    pub network_id: NetworkId,
    /// The number by which the nodes tell its packets from others', 1 to 16777215.
    pub vni: u32,
    /// Its addresses: `10.64.16.0/20`.
    pub subnet: String,
    /// The cell's address in it.
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
    /// The address of its node, where packets for it go.
    pub node_address: String,
}

/// A network, as a node should have it: everybody who is in it, wherever they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkState {
    /// Which.
    pub network_id: NetworkId,
    /// Its name, under which its members are also found: `cell.network.muster.internal`.
    pub name: String,
    /// Its number on the wire.
    pub vni: u32,
    /// Its addresses.
    pub subnet: String,
    /// Everybody in it.
    pub neighbours: Vec<Neighbour>,
}

/// The people that a cell should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellPeople {
    /// Which cell.
    pub cell_id: CellId,
    /// Who may work in it.
    pub people: Vec<WantedPerson>,
}

/// A person who may work in a cell, on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WantedPerson {
    /// The name.
    pub name: String,
    /// The number, user and group alike.
    pub uid: u32,
    /// Their public keys, as positions in the list of `Wanted`: a key is sent once, in however many cells it counts.
    pub keys: Vec<u32>,
}

/// A person who may work in a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name.
    pub name: String,
    /// The number, user and group alike.
    pub uid: u32,
    /// Public keys, without options and comments.
    pub keys: Vec<String>,
}

/// What a node should have beside its places. It is whole: what is not in it should not be there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Wanted {
    /// Raised with each change.
    pub revision: i64,
    /// The networks of its cells.
    pub networks: Vec<NetworkState>,
    /// The people of those of its cells that asked for them.
    pub people: Vec<CellPeople>,
    /// The public keys of all of them, without options and comments.
    #[serde(default)]
    #[schema(required = false)]
    pub keys: Vec<String>,
}

impl Wanted {
    /// The people of a cell with their keys; nothing if the cell did not ask for people.
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

/// A cell that an agent found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct CellPlace {
    /// In whose allocation.
    pub allocation_id: AllocationId,
    /// Which.
    pub cell_id: CellId,
    /// Which incarnation of it.
    pub incarnation: i64,
}

/// What an agent saw of a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellFindings {
    /// Whether it runs.
    pub present: bool,
    /// Which incarnation; 0 where there is none.
    pub incarnation: i64,
    /// Its first process on the node; 0 where there is none.
    pub pid: u32,
    /// Its address, as its network interface has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub address: Option<String>,
    /// The devices that it may open.
    pub devices: Vec<String>,
    /// Its services.
    pub services: Vec<ServiceFindings>,
    /// What was looked for, and where.
    pub checked: Vec<String>,
    /// What of it is left, in words: processes, mounts, namespaces, links, rules, control groups, files.
    pub left: Vec<String>,
    /// What the agent counted of a cell that does not run: with nothing alive, this is the proof of its death.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub death: Option<CellDeath>,
}

/// What the agent counted of a cell that does not run, in the kernel's own lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CellDeath {
    /// The boot of the machine in which the agent counted: the cell's own boot or a later one.
    pub boot_id: String,
    /// Processes of the cell: in its control groups, of its range of ids, or monitors of its services.
    pub processes: u32,
    /// Namespaces of the cell that a process still holds; its mounts live in one of them.
    pub namespaces: u32,
    /// Mounts that the node keeps for the cell outside of it. Nothing runs from them; destroying the cell removes them.
    pub mounts: u32,
}

impl CellDeath {
    /// Whether nothing of the cell can do anything any more.
    pub fn is_proved(&self) -> bool {
        self.processes == 0 && self.namespaces == 0
    }
}

/// What an agent saw of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceFindings {
    /// Which.
    pub name: String,
    /// What it is.
    pub state: ServiceState,
    /// Its process on the node; 0 if there is none.
    pub pid: u32,
    /// Whether it is ready, by its probe.
    pub ready: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// Its last exit status.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub exit: Option<i32>,
    /// What there is to say of it: above all why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub message: Option<String>,
}

/// What a service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Nobody asked for it yet, or somebody asked for its end.
    Idle,
    /// It waits for others.
    Waiting,
    /// It runs.
    Running,
    /// It ended, and will be started again in a moment.
    Restarting,
    /// It ended, and that is how it stays.
    Ended,
}
