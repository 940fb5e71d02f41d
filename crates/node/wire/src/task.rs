//! Tasks of an agent and the reports on them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, NetworkId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::act::Act;
use crate::cell::{CellFindings, File, SecretFile};

/// Subject of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskSubject {
    /// The whole node.
    Node,
    /// The sandbox of an allocation.
    Sandbox,
    /// A cell in it, or all of its cells.
    Cell,
}

/// Kind of a task: the name of its act, where nothing else of the act is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Provision a sandbox.
    Prepare,
    /// Inspect it.
    Inspect,
    /// Change its resources.
    Resize,
    /// Destroy it.
    Destroy,
    /// Wipe its devices and its disk.
    Wipe,
    /// List all platform resources on the node.
    Survey,
    /// Create a cell.
    CellCreate,
    /// Inspect a cell.
    CellInspect,
    /// Destroy a cell.
    CellDestroy,
    /// Return the last log lines of cells.
    KeepLogs,
    /// Connect a stream to a cell.
    Stream,
    /// Remove orphans.
    Sweep,
    /// Write or remove files in a cell.
    CellFiles,
    /// Start or stop a service of a cell.
    CellService,
    /// Run a command in a cell.
    CellCommand,
    /// Run a check beside a cell.
    CellProbe,
    /// Pull and unpack the image of a later cell.
    ImagePull,
    /// Remove the shared directories of a network.
    ShareRemove,
}

impl TaskKind {
    /// Returns its name in the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Inspect => "inspect",
            Self::Resize => "resize",
            Self::Destroy => "destroy",
            Self::Wipe => "wipe",
            Self::Survey => "survey",
            Self::CellCreate => "cell_create",
            Self::CellInspect => "cell_inspect",
            Self::CellDestroy => "cell_destroy",
            Self::KeepLogs => "keep_logs",
            Self::Stream => "stream",
            Self::Sweep => "sweep",
            Self::CellFiles => "cell_files",
            Self::CellService => "cell_service",
            Self::CellCommand => "cell_command",
            Self::CellProbe => "cell_probe",
            Self::ImagePull => "image_pull",
            Self::ShareRemove => "share_remove",
        }
    }

    /// Returns a verb phrase, for messages about a node.
    pub fn verb_phrase(self) -> &'static str {
        match self {
            Self::Prepare => "provision the allocation",
            Self::CellCreate => "create the cell",
            Self::CellInspect => "inspect the cell",
            Self::CellDestroy => "destroy the cell",
            Self::KeepLogs => "archive the logs",
            Self::ImagePull => "pull the image",
            Self::CellProbe => "run a check beside the cell",
            Self::ShareRemove => "remove the shared files",
            kind => kind.as_str(),
        }
    }

    /// Returns its subject.
    pub fn subject(self) -> TaskSubject {
        match self {
            Self::Prepare | Self::Inspect | Self::Resize | Self::Destroy | Self::Wipe => TaskSubject::Sandbox,
            Self::CellCreate
            | Self::CellInspect
            | Self::CellDestroy
            | Self::KeepLogs
            | Self::Stream
            | Self::CellFiles
            | Self::CellService
            | Self::CellCommand
            | Self::CellProbe
            | Self::ImagePull => TaskSubject::Cell,
            Self::Survey | Self::Sweep | Self::ShareRemove => TaskSubject::Node,
        }
    }

    /// Returns its meaning for the allocation's sandbox: tasks about a cell leave the sandbox as it is.
    pub fn to_sandbox_kind(self) -> Self {
        match self.subject() {
            TaskSubject::Cell => Self::Inspect,
            TaskSubject::Sandbox | TaskSubject::Node => self,
        }
    }

    /// Whether it only inspects: it changes nothing on the node.
    pub fn is_inspection(self) -> bool {
        matches!(self, Self::Inspect | Self::CellInspect | Self::Survey | Self::CellProbe)
    }
}

/// Resources of a sandbox beside its devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Amount {
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// Disk in MiB.
    pub disk_mb: i64,
}

/// Files to write and to remove in a cell. Each is renamed into its path, so it is never partially written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesOrder {
    /// Files to write.
    #[serde(default)]
    #[schema(required = false, max_items = 100)]
    pub write: Vec<File>,
    /// Files and empty directories to remove. Missing ones are ignored.
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
    /// Name, from the cell's services.
    #[schema(max_length = 63)]
    pub name: String,
    /// Action.
    pub action: ServiceAction,
}

/// Action on a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceAction {
    /// Start it unless it is running. Completes when the service is ready.
    Start,
    /// Stop it unless it is stopped. Completes when none of its processes is left.
    Stop,
    /// Stop it, then start it.
    Restart,
}

/// A command to run to completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandOrder {
    /// Program path and arguments. No shell interprets them.
    #[schema(min_items = 1, max_items = 256)]
    pub command: Vec<String>,
    /// Environment variables in addition to the cell's.
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
    /// Standard input.
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
    /// Program path in the image, and arguments.
    #[schema(min_items = 1, max_items = 64)]
    pub command: Vec<String>,
    /// Complete environment.
    #[serde(default)]
    #[schema(required = false)]
    pub environment: BTreeMap<String, String>,
    /// Directories of the cell mounted for reading; nothing in them is executed.
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

/// Result of a command or a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ran {
    /// Exit status; 128 plus the signal number after a kill.
    pub exit: i32,
    /// Last 16 KiB of standard output.
    pub stdout: String,
    /// Last 16 KiB of standard error.
    pub stderr: String,
    /// Whether the output was truncated.
    pub truncated: bool,
    /// Whether it was killed by the timeout.
    pub timed_out: bool,
}

/// A task.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Task {
    /// Task id. A task delivered twice is the same task.
    pub id: TaskId,
    /// Incarnation of the sandbox; 0 for a task about the node and for a stream. An agent refuses one older than the latest it knows.
    pub incarnation: i64,
    /// Lease generation of the request, returned with the report.
    pub generation: i64,
    /// Act to carry out.
    pub act: Act,
    /// Correlation id.
    pub correlation_id: String,
    /// Expiry, after which no caller waits for it.
    pub expires_at: Timestamp,
}

/// Outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Done.
    Done,
    /// Not done, and nothing of it is left.
    Failed,
}

/// A sandbox found by an agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct SandboxRef {
    /// Its allocation.
    pub allocation_id: AllocationId,
    /// Which incarnation.
    pub incarnation: i64,
}

/// A platform resource that an agent found on its node, known to it or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct NodeResource {
    /// Kind.
    pub kind: NodeResourceKind,
    /// Name on the node.
    pub name: String,
    /// Its allocation, if the name contains it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub allocation_id: Option<AllocationId>,
    /// Its cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub cell_id: Option<CellId>,
    /// Its network.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub network_id: Option<NetworkId>,
}

/// Kind of a resource on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeResourceKind {
    /// A running cell, or the runtime's record of one.
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
    /// A disk, or its block device.
    Disk,
    /// A folder or a file.
    File,
    /// Directories shared by the cells of a network, on the file system that nodes share. Each node finds them.
    Share,
}

/// Last log lines of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptLog {
    /// In which cell.
    pub cell_id: CellId,
    /// Which service.
    pub service: String,
    /// Log lines, each with time, stream and text.
    pub text: String,
    /// Whether earlier lines were left out.
    pub truncated: bool,
}

/// Observations of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Findings {
    /// Whether the sandbox exists.
    pub present: bool,
    /// Incarnation of the sandbox; 0 if there is none.
    pub incarnation: i64,
    /// Devices it holds.
    pub devices: Vec<String>,
    /// Other resources it holds.
    pub amount: Amount,
    /// Requested devices and disks that are not wiped.
    pub residue: Vec<String>,
    /// Every sandbox on the node, for a survey.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub sandboxes: Vec<SandboxRef>,
    /// Checks that were made, and where.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub checked: Vec<String>,
    /// Remains of the sandbox: processes, mounts, namespaces, links, rules, control groups, files.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub left: Vec<String>,
    /// Observations of a cell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub cell: Option<CellFindings>,
    /// Last log lines of services.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub logs: Vec<KeptLog>,
    /// All platform resources on the node, for a survey.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub resources: Vec<NodeResource>,
    /// Result of the command or check.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub ran: Option<Ran>,
    /// Reason code of a failure, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub refusal: Option<Refusal>,
}

/// Reason code for a task that a node did not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The image could not be pulled.
    ArtifactPull,
    /// The pulled or stored content does not match its digest.
    ArtifactDamaged,
    /// The image has no trusted signature.
    ArtifactUntrusted,
    /// A secret could not be fetched.
    Secret,
    /// The node does not support the task; a retry cannot help.
    Unsupported,
    /// The first process of the cell ended, and all others with it. This incarnation accepts no more tasks.
    CellDead,
    /// The node's own disk is full, and the task needs room on it. A later retry may succeed.
    NodeFull,
}

/// Report on a task.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// Task id.
    pub task_id: TaskId,
    /// Incarnation of the task.
    pub incarnation: i64,
    /// Lease generation of the task.
    pub generation: i64,
    /// Outcome.
    pub ending: Ending,
    /// Observations.
    pub findings: Findings,
    /// Message, above all the reason for a failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub message: Option<String>,
}
