//! Slots.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::page;
use crate::{Endpoint, shape};

pub use muster_model::node::{Slot, SlotState};

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
