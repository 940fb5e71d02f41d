//! The shared directories of an instance's members lie on one file system, which each of their nodes must mount.

use muster_db::{Result, StoreError, Tx};
use muster_ids::{NetworkId, NodeId};
use muster_model::member::MemberFailure;
use muster_model::node::Node;
use muster_wire::cell::CellSpec;

use super::subject::refused;
use crate::{StepCx, StepOutcome};

/// Returns the current or future node of a cell.
pub(super) async fn node(cx: &StepCx<'_>, id: NodeId) -> Result<Node> {
    cx.store.node_lookup(id).await?.ok_or(StoreError::Gone("node".to_owned()))
}

/// Pins the network's cells to the file system of the first cell that shares a directory. Returns a refusal if this cell
/// cannot be created on this node: it would not find the files of the other members.
pub(super) async fn hold(
    tx: &mut Tx,
    network: NetworkId,
    node: Node,
    spec: &CellSpec,
) -> Result<Option<StepOutcome>> {
    let Some(path) = spec.shared.first() else { return Ok(None) };
    let Some(own) = node.shared_files else {
        let why = format!(
            "its members share {path}, and the node {} shares no files: its operator can start the agent \
             with --shared-files, or the member is placed elsewhere",
            node.name
        );
        return Ok(Some(refused(MemberFailure::ProvisionFailed, why)));
    };
    if tx.network_share(network, &own).await? == own {
        return Ok(None);
    }
    let why = format!(
        "its members share {path}, and the node {} has another shared file system than the nodes of the other members",
        node.name
    );
    Ok(Some(refused(MemberFailure::ProvisionFailed, why)))
}
