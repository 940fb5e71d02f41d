//! What an agent is asked to do, and what it says of it.

use jiff::Timestamp;
use muster_ids::{AllocationId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// List every place on the node.
    Survey,
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
