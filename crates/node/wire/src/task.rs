//! What an agent is asked to do, and what it says of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, NetworkId, ProjectId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cell::{CellFindings, CellOrder, File, SecretFile};
use crate::stream::StreamOrder;

/// What can be asked of an agent. No free shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Make the place of an allocation. Repeating it changes nothing.
    Prepare,
    /// Look at the place, and say what is there. Never answered from memory.
    Inspect,
    /// Change how much the place has.
    Resize,
    /// Destroy the place. What is not there is destroyed already.
    Destroy,
    /// Wipe the devices and the disk that the place held.
    Wipe,
    /// List everything of ours on the node, found by looking.
    Survey,
    /// Make a cell in an allocation's place, and start what runs in it.
    CellCreate,
    /// Look at a cell and its services, and say what is there, or what is left. Never answered from memory.
    CellInspect,
    /// Destroy a cell; its state directories stay with the allocation.
    CellDestroy,
    /// Say the last of what the services of an allocation's cells wrote, before the cells go.
    KeepLogs,
    /// Dial the server, and join a terminal, a command or a transfer to a cell.
    Stream,
    /// Remove things that nothing on the platform knows.
    Sweep,
    /// Write or remove files in a cell. Doing it twice is doing it once.
    CellFiles,
    /// Start or stop a service of a cell. Doing it twice is doing it once.
    CellService,
    /// Run a command in a cell to its end, once a task: who asks again with the same task is told how it ended.
    CellCommand,
    /// Run a check beside a cell: from its image's own files, in its network, among its processes. Never answered from memory.
    CellProbe,
    /// Fetch and unpack the image of a cell that is to be made later. Doing it twice is doing it once.
    ImagePull,
    /// Remove what the cells of a network shared, and look whether it is gone. What is not there is removed already.
    ShareRemove,
}

impl TaskKind {
    /// What it means for the allocation's place: what is about a cell leaves that as it is.
    pub fn of_place(self) -> Self {
        match self {
            Self::CellCreate
            | Self::CellInspect
            | Self::CellDestroy
            | Self::KeepLogs
            | Self::Stream
            | Self::CellFiles
            | Self::CellService
            | Self::CellCommand
            | Self::CellProbe
            | Self::ImagePull
            | Self::ShareRemove => Self::Inspect,
            kind => kind,
        }
    }
}

/// An amount of each thing that a place has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amount {
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// Disk in MiB.
    pub disk_mb: i64,
}

/// The details of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Details {
    /// The devices it is about, by their own identities.
    pub devices: Vec<String>,
    /// How much of the rest.
    pub amount: Amount,
    /// Whether nobody else may be on the node.
    pub exclusive: bool,
    /// The cell it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub cell: Option<CellOrder>,
    /// The stream to join.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub stream: Option<StreamOrder>,
    /// What to sweep away.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub things: Vec<Thing>,
    /// What to do in the cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub act: Option<CellAct>,
    /// The network whose cells shared what is to be removed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub share: Option<NetworkId>,
    /// The project of the allocation. A node shares its room for checks out by project.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub project_id: Option<ProjectId>,
}

/// Something to be done in a cell that is there, or beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = CellTask)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CellAct {
    /// Files to write, and paths to remove.
    Files(FilesOrder),
    /// A service to start or to stop.
    Service(ServiceOrder),
    /// A command to run to its end.
    Command(CommandOrder),
    /// A check to run beside the cell.
    Probe(ProbeOrder),
}

impl CellAct {
    /// The kind of task that carries it.
    pub fn kind(&self) -> TaskKind {
        match self {
            Self::Files(_) => TaskKind::CellFiles,
            Self::Service(_) => TaskKind::CellService,
            Self::Command(_) => TaskKind::CellCommand,
            Self::Probe(_) => TaskKind::CellProbe,
        }
    }
}

/// Files to write and to remove in a cell. Each is whole or not there at all: it is renamed into its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesOrder {
    /// What to write.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub write: Vec<File>,
    /// Files and empty directories to remove; what is not there is removed already.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub remove: Vec<String>,
    /// Secrets to write, by reference, each as a file of mode 0400 in `/run/muster/secrets`.
    #[serde(default)]
    #[schema(required = false, max_items = 64)]
    pub secrets: Vec<SecretFile>,
}

/// A service to start or to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceOrder {
    /// Which, as the cell's own list has it.
    #[schema(max_length = 63)]
    pub name: String,
    /// What with it.
    pub action: ServiceAction,
}

/// What to do with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceAction {
    /// Start it, unless it runs. It is done when the service is ready.
    Start,
    /// Stop it, unless it does not run. It is done when no process of it is left.
    Stop,
    /// Stop it, and start it.
    Restart,
}

/// A command to run to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOrder {
    /// The program, by its path, and its arguments. No shell looks at them.
    #[schema(min_items = 1, max_items = 256)]
    pub command: Vec<String>,
    /// What it finds in its environment beside what the cell has.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// As which user of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// As which group of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
    /// What it reads.
    #[serde(default)]
    #[schema(required = false, max_length = 262_144)]
    pub stdin: String,
    /// After so many seconds it is killed.
    #[serde(default = "a_minute")]
    #[schema(required = false, minimum = 1, maximum = 3600)]
    pub timeout_seconds: u32,
}

/// A check to run beside a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeOrder {
    /// The program, by its path in the image, and its arguments.
    #[schema(min_items = 1, max_items = 64)]
    pub command: Vec<String>,
    /// Its whole environment.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Directories of the cell that it sees, to read; nothing in them is ever run.
    #[serde(default)]
    #[schema(required = false, max_items = 16)]
    pub sees: Vec<String>,
    /// As which user of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub uid: u32,
    /// As which group of the cell.
    #[serde(default)]
    #[schema(required = false)]
    pub gid: u32,
    /// After so many seconds it is killed.
    #[serde(default = "ten")]
    #[schema(required = false, minimum = 1, maximum = 300)]
    pub timeout_seconds: u32,
}

fn a_minute() -> u32 {
    60
}

fn ten() -> u32 {
    10
}

/// How a command or a check ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ran {
    /// Its exit status; 128 and the signal's number for one that was killed.
    pub exit: i32,
    /// The last 16 KiB of what it wrote.
    pub stdout: String,
    /// The last 16 KiB of what it complained of.
    pub stderr: String,
    /// Whether it wrote more than is said here.
    pub truncated: bool,
    /// Whether it was killed because its time was over.
    pub timed_out: bool,
}

/// A task.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// Its id. A task that comes twice is the same task.
    pub id: TaskId,
    /// What to do.
    pub kind: TaskKind,
    /// For which allocation; none for a survey.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub allocation_id: Option<AllocationId>,
    /// Which incarnation of its place. An agent refuses what speaks of an older one than it has seen.
    pub incarnation: i64,
    /// The generation of the lease under which it was asked for; it goes back with the report.
    pub generation: i64,
    /// The details.
    pub details: Details,
    /// The thread.
    pub correlation_id: String,
    /// When nobody waits for it any more.
    pub expires_at: Timestamp,
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It was done.
    Done,
    /// It surely was not done, and nothing of it is left.
    Failed,
}

/// A place that an agent found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Place {
    /// Whose.
    pub allocation_id: AllocationId,
    /// Which incarnation.
    pub incarnation: i64,
}

/// Something of ours that an agent found on its node, whether it knows of it or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct Thing {
    /// What it is.
    pub kind: ThingKind,
    /// How the node calls it.
    pub name: String,
    /// Whose it is, as far as its name says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub allocation_id: Option<AllocationId>,
    /// Which cell's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub cell_id: Option<CellId>,
    /// Which network's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub network_id: Option<NetworkId>,
}

/// What can be found on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThingKind {
    /// A running cell, or what the runtime remembers of one.
    Cell,
    /// A process.
    Process,
    /// A mount.
    Mount,
    /// A namespace that is kept open.
    Namespace,
    /// A network link.
    Link,
    /// A rule or a table of rules.
    Rule,
    /// A control group.
    ControlGroup,
    /// A disk, or the device that presents it.
    Disk,
    /// A folder or a file.
    File,
    /// What the cells of a network share, on the file system that nodes share: every one of them finds it.
    Share,
}

/// The last that a service wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptLog {
    /// In which cell.
    pub cell_id: CellId,
    /// Which service.
    pub service: String,
    /// What it wrote, a line each: time, stream, text.
    pub text: String,
    /// Whether there was more.
    pub truncated: bool,
}

/// What an agent saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Findings {
    /// Whether the place is there.
    pub present: bool,
    /// Which incarnation of it; 0 where there is none.
    pub incarnation: i64,
    /// The devices that it holds.
    pub devices: Vec<String>,
    /// How much of the rest it holds.
    pub amount: Amount,
    /// What of the devices and the disk that were asked about is not wiped.
    pub residue: Vec<String>,
    /// Every place on the node, in the answer to a survey.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub places: Vec<Place>,
    /// What was looked for, and where.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub checked: Vec<String>,
    /// What of the place is left, in words: processes, mounts, namespaces, links, rules, control groups, files.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub left: Vec<String>,
    /// What was seen of a cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub cell: Option<CellFindings>,
    /// What services wrote last.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub logs: Vec<KeptLog>,
    /// Everything of ours on the node, in the answer to a survey.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub things: Vec<Thing>,
    /// How what was run ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub ran: Option<Ran>,
    /// Why it was not done, where that is one of these.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub refusal: Option<Refusal>,
}

/// Why a node did not do what it was asked for, where the reason has a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Its image could not be had.
    ArtifactPull,
    /// What came, or what was there, is not what the digest says.
    ArtifactDamaged,
    /// The image has no signature that counts.
    ArtifactUntrusted,
    /// A secret of it could not be had.
    Secret,
    /// The node cannot do it as it is asked, and a retry cannot help.
    Unsupported,
    /// The first process of the cell ended, and every other with it: nothing can be done in this incarnation any more.
    CellDead,
}

/// What an agent says of a task.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// Of which.
    pub task_id: TaskId,
    /// The incarnation it was for.
    pub incarnation: i64,
    /// The generation it was asked for under.
    pub generation: i64,
    /// How it ended.
    pub ending: Ending,
    /// What was seen.
    pub findings: Findings,
    /// What there is to say, above all why it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub message: Option<String>,
}
