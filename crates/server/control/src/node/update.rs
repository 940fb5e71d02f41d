//! Change a node's labels, or approve the address that its agent reports.

use muster_api::node::NodeUpdate;
use muster_authz::Permission;
use muster_model::Scope;
use muster_model::event::EventType;
use serde_json::json;

use super::{ensure_reported, path, pin_address, still_ours, view};
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, PreparedCommand, Result};

/// Prepares `node_update`.
pub async fn update(cx: &Cx, reference: &str, body: NodeUpdate) -> Result<PreparedCommand> {
    cx.authorize(Permission::NodeUpdate, Scope::Platform, "node")?;
    let mut node = cx.node(reference).await?;
    still_ours(&node)?;
    cx.expect_version(node.version)?;
    let told = changed(
        &view(&node),
        &[
            ("labels", body.labels.as_ref().map(|labels| json!(labels))),
            ("address", body.address.as_ref().map(|address| json!(address))),
        ],
    );
    if let Some(address) = &body.address {
        ensure_reported(&node, address)?;
    }
    if body.labels.is_some() {
        node.labels = checked_labels(body.labels)?;
    }
    node.updated_at = cx.now;
    node.version += 1;
    let subject = path(&node);
    let commit = PreparedCommand::new(Scope::Platform, target("node", node.id, &node.name), move |tx| {
        Box::pin(async move {
            tx.node_update(&node).await?;
            if body.address.is_some() {
                pin_address(tx, &node).await?;
                node.address = body.address;
            }
            Ok(Answer::new(&view(&node)))
        })
    });
    Ok(commit.event(cx, EventType::NodeUpdated, subject, told))
}
