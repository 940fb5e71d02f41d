//! What an agent is asked to do, and what it says of it.

use jiff::Timestamp;
use muster_ids::{AllocationId, CellId, NetworkId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cell::{CellFindings, CellOrder};
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
}

impl TaskKind {
    /// What it means for the allocation's place: what is about a cell leaves that as it is.
    pub fn of_place(self) -> Self {
        match self {
            Self::CellCreate | Self::CellInspect | Self::CellDestroy | Self::KeepLogs | Self::Stream => {
                Self::Inspect
            }
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
    /// Why a cell was not made, where that is one of these.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = false)]
    pub refusal: Option<Refusal>,
}

/// Why a node did not make a cell although it could make others.
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
