//! The directories that the members of an instance have in common lie on one file system, which every one of their nodes must have.

use muster_db::{Result, StoreError, Tx};
use muster_ids::{NetworkId, NodeId};
use muster_model::member::MemberFailure;
use muster_model::node::Node;
use muster_wire::cell::CellSpec;

use super::subject::refused;
use crate::{StepCx, Verdict};

/// The node that a cell is on, or will be.
pub(super) async fn node(cx: &StepCx<'_>, id: NodeId) -> Result<Node> {
    cx.store.node_lookup(id).await?.ok_or(StoreError::Gone("node".to_owned()))
}

/// Holds the network's cells to the file system of the first of them that shares something. Says why this one cannot be made here:
/// it would look for its files where nobody else puts them.
pub(super) async fn hold(
    tx: &mut Tx,
    network: NetworkId,
    node: Node,
    spec: &CellSpec,
) -> Result<Option<Verdict>> {
    let Some(path) = spec.shared.first() else { return Ok(None) };
    let Some(own) = node.shared_files else {
        let why = format!(
            "its members share {path}, and the node {} shares no files with others: its operator starts the agent with --shared-files, \
             or it is placed elsewhere",
            node.name
        );
        return Ok(Some(refused(MemberFailure::ProvisionFailed, why)));
    };
    if tx.network_share(network, &own).await? == own {
        return Ok(None);
    }
    let why = format!(
        "its members share {path}, and the node {} shares another file system than the nodes of the members before it",
        node.name
    );
    Ok(Some(refused(MemberFailure::ProvisionFailed, why)))
}
