//! Uncordon a node, so that it takes new work again.

use muster_api::Code;
use muster_api::node::NodeReason;
use muster_authz::Permission;
use muster_model::Scope;
use muster_model::event::EventType;
use serde_json::json;

use super::{QUEUED, path, still_ours, view};
use crate::commit::{target, told};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `node_uncordon`.
pub async fn uncordon(cx: &Cx, reference: &str, body: NodeReason) -> Result<PreparedCommand> {
    cx.authorize(Permission::NodeUncordon, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    still_ours(&node)?;
    let (id, now) = (node.id, cx.now);
    let told = told(&[("name", Some(json!(node.name))), ("reason", body.reason.map(|reason| json!(reason)))]);
    let subject = path(&node);
    let before = view(&node);
    let commit = PreparedCommand::new(Scope::Platform, target("node", id, &node.name), move |tx| {
        Box::pin(async move {
            if !tx.node_set_cordoned(id, false, now).await? {
                let why = if tx.node_of(id).await?.draining {
                    "the node is draining: cancel that operation first"
                } else {
                    "the node is not cordoned"
                };
                return Err(Error::new(Code::InvalidState, why));
            }
            tx.operation_wake_queued(now, QUEUED).await?;
            Ok(Answer::new(&view(&tx.node_of(id).await?)))
        })
    });
    Ok(commit.before(&before).wakes_engine().event(cx, EventType::NodeUncordoned, subject, told))
}
