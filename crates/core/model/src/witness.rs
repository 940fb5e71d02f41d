//! Witnesses: evidence for a transition, and never confused with somebody's word.

use jiff::Timestamp;
use muster_ids::{NodeId, OperationId, TaskId, WitnessId};
use serde_json::Value;

use crate::state::states;

states! {
    /// How we know.
    WitnessKind {
        /// The platform collected the evidence itself.
        Witnessed = "witnessed" => [];
        /// An operator stands in for evidence that cannot be had.
        Attested = "attested" => [];
        /// The checks could not run, because an agent proved that the cell, in that very incarnation, is dead. Only for
        /// `drained` and `removed`.
        Lost = "lost" => [];
    }
}

states! {
    /// What it is evidence for.
    Transition {
        /// The place is there, as asked for.
        Active = "active" => [];
        /// The place is gone.
        Gone = "gone" => [];
        /// What it held is wiped, or nothing was ever held.
        Wiped = "wiped" => [];
        /// The machine holds nothing of ours any more.
        Retired = "retired" => [];
        /// No work is on a member, and none comes.
        Drained = "drained" => [];
        /// Nothing is left of a member, and nothing counts on it.
        Removed = "removed" => [];
        /// The rest of its network does not know a member any more.
        Fenced = "fenced" => [];
        /// Every component of an instance has what it needs.
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
    /// The thing it speaks of.
    pub subject_id: uuid::Uuid,
    /// For what.
    pub transition: Transition,
    /// How we know.
    pub kind: WitnessKind,
    /// Which incarnation of the thing.
    pub incarnation: i64,
    /// In which operation it was collected.
    pub operation_id: Option<OperationId>,
    /// By whose agent.
    pub node_id: Option<NodeId>,
    /// By which task.
    pub task_id: Option<TaskId>,
    /// Who attested.
    pub actor_id: Option<String>,
    /// What was checked.
    pub checked: Value,
    /// What was found.
    pub result: Value,
    /// When.
    pub at: Timestamp,
}
