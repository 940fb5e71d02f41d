//! Change a node's labels.

use muster_api::node::NodeUpdate;
use muster_authz::Permission;
use muster_model::Scope;
use muster_model::event::EventType;
use serde_json::json;

use super::{path, still_ours, view};
use crate::commit::{changed, target};
use crate::tenant::checked_labels;
use crate::{Answer, Commit, Cx, Result};

/// Prepares `node_update`.
pub async fn update(cx: &Cx, reference: &str, body: NodeUpdate) -> Result<Commit> {
    cx.authorize(Permission::NodeUpdate, Scope::Platform, "node")?;
    let mut node = cx.node(reference).await?;
    still_ours(&node)?;
    cx.expect_version(node.version)?;
    let told = changed(&[("labels", body.labels.as_ref().map(|labels| json!(labels)))]);
    if body.labels.is_some() {
        node.labels = checked_labels(body.labels)?;
    }
    node.updated_at = cx.now;
    node.version += 1;
    let subject = path(&node);
    let commit = Commit::new(Scope::Platform, target("node", node.id, &node.name), move |tx| {
        Box::pin(async move {
            tx.node_update(&node).await?;
            Ok(Answer::new(&view(&node)))
        })
    });
    Ok(commit.event(cx, EventType::NodeUpdated, subject, told))
}
