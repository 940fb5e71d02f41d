//! Nodes and their slots.

use jiff::Timestamp;
use muster_ids::{NodeId, SlotId, WitnessId};
use serde_json::Value;

use crate::Labels;
use crate::state::states;

states! {
    /// What a node is. The database makes it of the facts beside it (approved, cordoned, draining, unreachable since,
    /// retired), so that it can never disagree with them.
    NodeState {
        /// It has joined, and waits for an operator's approval.
        Enrolling = "enrolling" => [Ready, Cordoned, Draining, Unreachable, Retired];
        /// It takes allocations.
        Ready = "ready" => [Cordoned, Draining, Unreachable, Retired];
        /// It keeps what it has and takes nothing new.
        Cordoned = "cordoned" => [Ready, Draining, Unreachable, Retired];
        /// It is being emptied.
        Draining = "draining" => [Ready, Cordoned, Unreachable, Retired];
        /// Nobody has heard from it. What runs on it may well go on.
        Unreachable = "unreachable" => [Enrolling, Ready, Cordoned, Draining, Retired];
        /// It is not ours any more.
        Retired = "retired" => [];
    }
}

states! {
    /// What a slot is.
    SlotState {
        /// An agent reported it.
        Discovered = "discovered" => [Approved, Quarantined, Retired];
        /// An operator approved it: it can be claimed.
        Approved = "approved" => [Quarantined, Retired];
        /// Something about it could not be verified; nobody gets it.
        Quarantined = "quarantined" => [Approved, Retired];
        /// It is gone.
        Retired = "retired" => [];
    }
}

/// An amount of each thing that a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Capacity {
    /// GPUs, claimed slot by slot.
    pub gpus: i64,
    /// Logical CPUs.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mb: i64,
    /// Disk in MiB.
    pub disk_mb: i64,
}

impl Capacity {
    /// Whether it asks for no more than `other` of anything.
    pub fn within(&self, other: &Capacity) -> bool {
        self.gpus <= other.gpus
            && self.cpus <= other.cpus
            && self.memory_mb <= other.memory_mb
            && self.disk_mb <= other.disk_mb
    }

    /// What has to be added to `self` to get `other`; negative where it is less.
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
    /// Its name, unique among those that are not retired.
    pub name: String,
    /// Labels.
    pub labels: Labels,
    /// What it is.
    pub state: NodeState,
    /// What its agent last reported.
    pub inventory: Value,
    /// The digest of that hardware.
    pub inventory_digest: String,
    /// What an operator approved.
    pub approved_inventory: Option<Value>,
    /// The digest of what was approved.
    pub approved_digest: Option<String>,
    /// When.
    pub approved_at: Option<Timestamp>,
    /// Whether it is kept from new work.
    pub cordoned: bool,
    /// Whether it is being emptied.
    pub draining: bool,
    /// Since when nobody has heard from it.
    pub unreachable_since: Option<Timestamp>,
    /// When it was retired.
    pub retired_at: Option<Timestamp>,
    /// The evidence for that.
    pub retired_witness_id: Option<WitnessId>,
    /// Raised whenever an agent takes up the node's identity; an older agent is refused.
    pub session: i64,
    /// The agent's version.
    pub agent_version: String,
    /// When the certificate it holds ends.
    pub certificate_until: Timestamp,
    /// Where other nodes reach it, as approved.
    pub address: Option<String>,
    /// The address that its agent reported last.
    pub reported_address: Option<String>,
    /// The address that its agent called from then.
    pub peer_address: Option<String>,
    /// Which file system it shares with other nodes.
    pub shared_files: Option<String>,
    /// When it was last heard, as far as was written down.
    pub seen_at: Option<Timestamp>,
    /// All it has, as approved.
    pub total: Capacity,
    /// What is not held.
    pub free: Capacity,
    /// How many allocations hold something of it.
    pub holders: i64,
    /// When it joined.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

/// A node's smallest claimable GPU unit.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Its id.
    pub id: SlotId,
    /// The node it is in.
    pub node_id: NodeId,
    /// Which kind; `gpu` today.
    pub kind: String,
    /// The device's own identity.
    pub device: String,
    /// Its number on the node.
    pub ordinal: i64,
    /// The device's model.
    pub model: String,
    /// Its memory in MiB.
    pub memory_mb: i64,
    /// The NUMA node it hangs on.
    pub numa: i64,
    /// The NVLink island it is part of.
    pub island: i64,
    /// What it is.
    pub state: SlotState,
    /// Why it is quarantined.
    pub reason: Option<String>,
    /// The allocation that holds it.
    pub allocation_id: Option<muster_ids::AllocationId>,
    /// For `If-Match`.
    pub version: i64,
}
