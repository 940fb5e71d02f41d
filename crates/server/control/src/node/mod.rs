//! Nodes, from the operators' side. The agents' requests are in `fleet`.

mod approve;
mod audit;
mod cordon;
mod drain;
mod drain_plan;
mod enrol;
mod get;
mod list;
mod retire;
mod uncordon;
mod update;

pub use approve::approve;
pub use audit::audit;
pub use cordon::cordon;
pub use drain::drain;
pub use enrol::enrol;
pub use get::get;
pub use list::list;
use muster_api::{Code, node as api};
use muster_db::{StoreError, Tx};
use muster_ids::TypedId as _;
use muster_model::node::Node;
use muster_wire::inventory::Inventory;
pub use retire::retire;
use serde::Deserialize as _;
use serde_json::Value;
pub use uncordon::uncordon;
pub use update::update;

use crate::operation::Subject;
use crate::{Cx, Error, Result};

/// Number of queued operations to wake when a node becomes usable: about as many as one node could take.
const QUEUED: i64 = 64;

/// Returns the subject of an operation on a node.
fn subject(node: &Node) -> Subject {
    Subject {
        kind: "node",
        uuid: node.id.uuid(),
        id: node.id.to_string(),
        name: node.name.clone(),
        path: path(node),
    }
}

/// Returns a node's view for lists and commands; `get` adds details.
pub(crate) fn view(node: &Node) -> api::Node {
    api::Node {
        id: node.id,
        name: node.name.clone(),
        labels: node.labels.clone(),
        state: node.state,
        cordoned: node.cordoned,
        draining: node.draining,
        unreachable_since: node.unreachable_since,
        retired_at: node.retired_at,
        total: node.total,
        free: node.free,
        allocations: node.holders,
        inventory_digest: node.inventory_digest.clone(),
        approved_digest: node.approved_digest.clone(),
        approved_at: node.approved_at,
        needs_approval: node.approved_digest.as_ref() != Some(&node.inventory_digest)
            || has_other_address(node),
        seen_at: node.seen_at,
        agent_version: node.agent_version.clone(),
        certificate_until: node.certificate_until,
        shared_files: node.shared_files.clone(),
        address: node.address.clone(),
        reported_address: node.reported_address.clone(),
        peer_address: node.peer_address.clone(),
        created_at: node.created_at,
        updated_at: node.updated_at,
        version: node.version,
        difference: None,
        slots: None,
        inventory: None,
    }
}

/// Reports whether its agent reports an address other than the approved one.
fn has_other_address(node: &Node) -> bool {
    node.reported_address.is_some() && node.reported_address != node.address
}

/// Ensures that `address` is the one the agent reports: an operator approves exactly what was reviewed.
fn ensure_reported(node: &Node, address: &str) -> Result<()> {
    if node.reported_address.as_deref() == Some(address) {
        return Ok(());
    }
    let reported = node.reported_address.as_deref().unwrap_or("none");
    Err(Error::field("/address", format!("the agent of {} reports another address: {reported}", node.name)))
}

/// Makes other nodes use the reported address.
async fn pin_address(tx: &mut Tx, node: &Node) -> Result<()> {
    let Some(address) = node.reported_address.as_deref().filter(|_| has_other_address(node)) else {
        return Ok(());
    };
    if let Some(other) = tx.node_with_address(address).await? {
        let why =
            format!("{} reports the address {address} of the node {other}: retire that one first", node.name);
        return Err(Error::new(Code::InvalidState, why));
    }
    if tx.node_address(node.id, address).await? {
        tx.bump_desired_node(node.id).await?;
    }
    Ok(())
}

pub(crate) fn path(node: &Node) -> String {
    format!("/v1/nodes/{}", node.id)
}

/// Parses a stored inventory. It was validated on input, so a parse error means corruption.
fn inventory(stored: &Value) -> Result<Inventory> {
    Inventory::deserialize(stored).map_err(|_| Error::from(StoreError::Corrupt("an inventory")))
}

/// Ensures that a node is not retired.
fn still_ours(node: &Node) -> Result<()> {
    if node.retired_at.is_none() {
        return Ok(());
    }
    Err(Error::new(
        Code::InvalidState,
        format!("{} was retired: join the machine again as another node", node.name),
    ))
}

/// Ensures that no other operation is open on a node: conflicting intents are resolved by an operator.
async fn none_under_way(cx: &Cx, node: &Node) -> Result<()> {
    let under_way = cx.platform.store.operation_open_on(node.id.uuid()).await?;
    match under_way.first() {
        None => Ok(()),
        Some(operation) => {
            let detail =
                format!("{} is in progress on it: cancel or resolve {} first", operation.kind, operation.id);
            Err(Error::new(Code::InvalidState, detail))
        }
    }
}
