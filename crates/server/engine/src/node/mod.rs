//! Operations on nodes, and their steps, one for each file.

mod audit;
mod clean_orphans;
mod compare;
mod confirm_empty;
mod cordon;
mod drain;
mod empty;
mod fate;
mod move_members;
mod retire;
mod survey;

pub use audit::AUDIT;
pub use drain::DRAIN;
pub use fate::{DrainMode, MemberFate, member_fate};
pub use retire::RETIRE;

use muster_db::{Result, StoreError};
use muster_ids::{NodeId, TypedId as _};
use muster_model::node::Node;

use crate::StepCx;

/// Returns the node that the operation works on.
async fn subject(cx: &StepCx<'_>) -> Result<Node> {
    let id = NodeId::from_uuid(cx.operation.subject_id);
    cx.store.node_lookup(id).await?.ok_or(StoreError::Gone("node".to_owned()))
}
