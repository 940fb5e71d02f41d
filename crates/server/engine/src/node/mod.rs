//! The operations on nodes, and their steps, one a file.

mod audit;
mod compare;
mod cordon;
mod drain;
mod empty;
mod fate;
mod mend;
mod move_members;
mod retire;
mod sign_off;
mod survey;

pub use audit::AUDIT;
pub use drain::DRAIN;
pub use fate::{DrainMode, MemberFate, member_fate};
pub use retire::RETIRE;

use muster_db::{Result, StoreError};
use muster_ids::{NodeId, TypedId as _};
use muster_model::node::Node;

use crate::StepCx;

/// The node that the operation works on.
async fn subject(cx: &StepCx<'_>) -> Result<Node> {
    let id = NodeId::from_uuid(cx.operation.subject_id);
    cx.store.node_lookup(id).await?.ok_or(StoreError::Gone("node".to_owned()))
}
