//! Nodes and their slots.

use jiff::Timestamp;
use muster_ids::{AllocationId, NodeId, SlotId, WitnessId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Labels;
use crate::state::states;

// The database derives it from the facts besides it (approved, cordoned, draining, unreachable since, retired), so that they
// can never disagree.
states! {
    /// State of a node.
    NodeState {
        /// It has joined, and waits for an operator's approval.
        Enrolling = "enrolling" => [Ready, Cordoned, Draining, Unreachable, Retired];
        /// It takes allocations.
        Ready = "ready" => [Cordoned, Draining, Unreachable, Retired];
        /// It keeps its allocations and accepts no new ones.
        Cordoned = "cordoned" => [Ready, Draining, Unreachable, Retired];
        /// It is being drained.
        Draining = "draining" => [Ready, Cordoned, Unreachable, Retired];
        /// It sends no heartbeats. Its cells may well continue to run.
        Unreachable = "unreachable" => [Enrolling, Ready, Cordoned, Draining, Retired];
        /// It has left the fleet.
        Retired = "retired" => [];
    }
}

states! {
    /// State of a slot.
    SlotState {
        /// An agent reported it.
        Discovered = "discovered" => [Approved, Quarantined, Retired];
        /// An operator approved it: it can be claimed.
        Approved = "approved" => [Quarantined, Retired];
        /// Not verified, or set aside by an operator; it cannot be claimed.
        Quarantined = "quarantined" => [Approved, Retired];
        /// It is gone.
        Retired = "retired" => [];
    }
}

/// Amounts of a node's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// GPUs.
    pub gpus: i64,
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// Disk in MiB.
    pub disk_mb: i64,
}

impl Capacity {
    /// Reports whether it exceeds `other` in no resource.
    pub fn within(&self, other: &Capacity) -> bool {
        self.gpus <= other.gpus
            && self.cpus <= other.cpus
            && self.memory_mb <= other.memory_mb
            && self.disk_mb <= other.disk_mb
    }

    /// Returns the difference from `self` to `other`; negative where `other` is less.
    pub fn to(&self, other: &Capacity) -> Capacity {
        Capacity {
            gpus: other.gpus - self.gpus,
            cpus: other.cpus - self.cpus,
            memory_mb: other.memory_mb - self.memory_mb,
            disk_mb: other.disk_mb - self.disk_mb,
        }
    }
}

/// An enrolled machine.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// Name, unique among nodes that are not retired.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// Current state.
    pub state: NodeState,
    /// Inventory last reported by its agent.
    pub inventory: Value,
    /// Digest of that inventory.
    pub inventory_digest: String,
    /// Inventory approved by an operator.
    pub approved_inventory: Option<Value>,
    /// Digest of the approved inventory.
    pub approved_digest: Option<String>,
    /// Time of the approval.
    pub approved_at: Option<Timestamp>,
    /// Whether it is cordoned.
    pub cordoned: bool,
    /// Whether it is being drained.
    pub draining: bool,
    /// Time since which it is unreachable.
    pub unreachable_since: Option<Timestamp>,
    /// When it was retired.
    pub retired_at: Option<Timestamp>,
    /// Evidence for the retirement.
    pub retired_witness_id: Option<WitnessId>,
    /// Incremented whenever an agent takes over the node's identity; an older agent is rejected.
    pub session: i64,
    /// The agent's version.
    pub agent_version: String,
    /// Expiry of its certificate.
    pub certificate_until: Timestamp,
    /// Approved address for other nodes.
    pub address: Option<String>,
    /// Address last reported by its agent.
    pub reported_address: Option<String>,
    /// Source address of that report.
    pub peer_address: Option<String>,
    /// File system that it shares with other nodes.
    pub shared_files: Option<String>,
    /// Latest recorded heartbeat.
    pub seen_at: Option<Timestamp>,
    /// Total capacity, as approved.
    pub total: Capacity,
    /// Free capacity.
    pub free: Capacity,
    /// Number of allocations on it.
    pub holders: i64,
    /// Time of joining.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

/// A node's smallest claimable GPU unit.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Slot {
    /// Its id.
    pub id: SlotId,
    /// The node it is in.
    pub node_id: NodeId,
    /// Its kind: `gpu`.
    pub kind: String,
    /// The device's own identifier.
    #[schema(example = "GPU-8f3d2c11-6a0e-4c8e-9a55-0d6b7f1e2a34")]
    pub device: String,
    /// Its number on the node.
    pub ordinal: i64,
    /// The device's model.
    pub model: String,
    /// Its memory in MiB.
    pub memory_mb: i64,
    /// Its NUMA node.
    pub numa: i64,
    /// Its NVLink island: GPUs that reach each other over NVLink have the same number.
    pub island: i64,
    /// Current state.
    pub state: SlotState,
    /// Reason it is quarantined.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The allocation that holds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allocation_id: Option<AllocationId>,
    /// Incremented with each change.
    pub version: i64,
}
