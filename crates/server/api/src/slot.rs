//! Slots.

use muster_ids::{AllocationId, NodeId, SlotId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::{Endpoint, shape};

pub use muster_model::node::SlotState;

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

/// A quarantine.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotQuarantine {
    /// Reason.
    #[schema(min_length = 1, max_length = 500, example = "ECC errors since Tuesday")]
    pub reason: String,
}

/// An approval on an operator's responsibility.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotApprove {
    /// Checks made and the person responsible; the platform verified nothing itself.
    #[schema(min_length = 1, max_length = 500, example = "memory test passed, board replaced")]
    pub reason: String,
}

page! {
    /// A node's slots.
    SlotPage of Slot
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("slot_list", "/v1/nodes/{node}/slots", shape::<SlotPage>())
        .needs("slot.list")
        .summary("List a node's slots with their allocations"),
    Endpoint::act(
        "slot_quarantine",
        "/v1/slots/{slot}/quarantine",
        shape::<SlotQuarantine>(),
        shape::<Slot>(),
    )
    .needs("slot.quarantine")
    .summary("Quarantine a slot")
    .description("An allocation that holds it keeps it; after its release, the slot cannot be claimed."),
    Endpoint::act("slot_approve", "/v1/slots/{slot}/approve", shape::<SlotApprove>(), shape::<Slot>())
        .needs("slot.approve")
        .summary("Approve a quarantined or new slot")
        .description(
            "Nothing is verified: the event and the audit entry record it as an operator's statement, with the reason.",
        ),
];
