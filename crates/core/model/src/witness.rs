//! Witnesses: evidence for a transition, kept apart from attestations.

use jiff::Timestamp;
use muster_ids::{NodeId, OperationId, TaskId, WitnessId};
use serde_json::Value;

use crate::state::states;

states! {
    /// Kind of evidence.
    WitnessKind {
        /// The platform collected the evidence itself.
        Witnessed = "witnessed" => [];
        /// An operator's statement replaces evidence that cannot be collected.
        Attested = "attested" => [];
        /// The checks could not run: the node's agent proved that the cell is dead, in that exact incarnation. Only for
        /// `drained` and `removed`.
        Lost = "lost" => [];
    }
}

states! {
    /// Transition that it is evidence for.
    Transition {
        /// The sandbox exists as requested.
        Active = "active" => [];
        /// The sandbox is gone.
        Destroyed = "destroyed" => [];
        /// Its resources are wiped, or it never held any.
        Wiped = "wiped" => [];
        /// The machine holds no platform resources any more.
        Retired = "retired" => [];
        /// A member has no work and receives none.
        Drained = "drained" => [];
        /// Nothing is left of a member, and nothing depends on it.
        Removed = "removed" => [];
        /// The rest of its network has dropped a member.
        Fenced = "fenced" => [];
        /// Every component of an instance has its minimum.
        Running = "running" => [];
        /// Nothing is left of an instance.
        Stopped = "stopped" => [];
    }
}

/// Evidence.
#[derive(Debug, Clone)]
pub struct Witness {
    /// Its id.
    pub id: WitnessId,
    /// Its subject.
    pub subject_id: uuid::Uuid,
    /// The transition.
    pub transition: Transition,
    /// Kind of evidence.
    pub kind: WitnessKind,
    /// Incarnation of the subject.
    pub incarnation: i64,
    /// Operation that collected it.
    pub operation_id: Option<OperationId>,
    /// Node of the agent.
    pub node_id: Option<NodeId>,
    /// Task of the agent.
    pub task_id: Option<TaskId>,
    /// Actor of the attestation.
    pub actor_id: Option<String>,
    /// Checks.
    pub checked: Value,
    /// Findings.
    pub result: Value,
    /// Time of collection.
    pub at: Timestamp,
}
