//! Allocations. The commands record the desired state; the engine provisions it.

mod act;
mod attest;
mod create;
mod get;
mod list;
mod release;
mod resize;
mod restart;
mod timeline;
mod update;

pub use attest::attest;
pub use create::create;
pub use get::get;
pub use list::list;
pub use release::MEMBERS_WITHIN;
pub use release::release;
pub use resize::resize;
pub use restart::restart;
pub use timeline::timeline;
pub use update::update;

use muster_api::allocation as api;
use muster_ids::TypedId as _;
use muster_model::allocation::{Allocation, AllocationState, FailureReason};
use muster_model::witness::WitnessKind;

use crate::operation::Subject;
use crate::{Cx, Result};

/// Returns the subject of an operation on an allocation.
fn subject(allocation: &Allocation) -> Subject {
    Subject {
        kind: "allocation",
        uuid: allocation.id.uuid(),
        id: allocation.id.to_string(),
        name: allocation.name.clone(),
        path: path(allocation),
    }
}

pub fn path(allocation: &Allocation) -> String {
    format!("/v1/projects/{}/allocations/{}", allocation.project_id, allocation.id)
}

/// Returns the view without fields that need a query: evidence and queue position.
pub(crate) fn view(allocation: &Allocation) -> api::Allocation {
    api::Allocation {
        id: allocation.id,
        tenant_id: allocation.tenant_id,
        project_id: allocation.project_id,
        name: allocation.name.clone(),
        labels: allocation.labels.clone(),
        shape: allocation.shape,
        capacity: allocation.capacity,
        strategy: allocation.strategy,
        state: allocation.state,
        node_id: allocation.node_id,
        incarnation: allocation.incarnation,
        held: allocation.held,
        reason: allocation.reason.map(|reason| reason.as_str().to_owned()),
        advice: allocation.reason.map(FailureReason::advice).map(str::to_owned),
        message: allocation.message.clone(),
        evidence: None,
        operation_id: allocation.operation_id,
        queue_position: None,
        wait_until: allocation.wait_until,
        expires_at: allocation.expires_at,
        protected: allocation.protected,
        created_at: allocation.created_at,
        updated_at: allocation.updated_at,
        version: allocation.version,
    }
}

/// Returns the view with evidence and queue position.
pub(crate) async fn full_view(cx: &Cx, allocation: &Allocation) -> Result<api::Allocation> {
    let store = &cx.platform.store;
    let mut view = view(allocation);
    let evidence = match allocation.state {
        // An active allocation is always witnessed, so there is nothing to look up.
        AllocationState::Active => {
            view.evidence = Some(WitnessKind::Witnessed);
            None
        }
        AllocationState::Released => allocation.wiped_witness_id,
        _ => None,
    };
    if let Some(id) = evidence {
        let found = store.witness_lookup(id).await?;
        view.evidence = found.map(|witness| witness.kind);
    }
    if allocation.state == AllocationState::Placing {
        view.queue_position = Some(store.queue_position(allocation.id).await?);
    }
    Ok(view)
}
