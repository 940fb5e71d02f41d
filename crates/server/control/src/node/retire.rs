//! Retire an empty node.

use muster_api::Code;
use muster_api::node::NodeRetire;
use muster_authz::Permission;
use muster_engine::node::RETIRE;
use muster_model::Scope;
use muster_model::node::NodeState;
use muster_model::operation_input::OperationInput;
use serde_json::json;

use crate::operation::{Submission, submit};
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `node_retire`.
pub async fn retire(cx: &Cx, reference: &str, body: NodeRetire) -> Result<PreparedCommand> {
    cx.authorize(Permission::NodeRetire, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    let invalid = |detail: String| Error::new(Code::InvalidState, detail);
    if node.retired_at.is_some() {
        return Err(invalid("it is retired".to_owned()));
    }
    if node.holders > 0 {
        let detail = format!(
            "{} allocations are on it: drain it first (`muster node drain {}`)",
            node.holders, node.name
        );
        return Err(invalid(detail));
    }
    if matches!(node.state, NodeState::Ready | NodeState::Draining) {
        return Err(invalid(format!(
            "it can still get work: drain it first (`muster node drain {}`)",
            node.name
        )));
    }
    if body.attest.is_some() && node.unreachable_since.is_none() {
        return Err(Error::field("/attest", "the node is reachable and is verified: leave this out"));
    }
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    if !body.dry_run.unwrap_or(false) {
        super::none_under_way(cx, &node).await?;
    }
    Ok(submit(
        cx,
        Submission {
            input: OperationInput { attest: body.attest.clone(), ..OperationInput::default() },
            event_data: json!({"name": node.name, "attested": body.attest.is_some()}),
            before: Some(json!({"state": node.state, "cordoned": node.cordoned, "draining": node.draining})),
            dry_run: body.dry_run.unwrap_or(false),
            ..Submission::on(&RETIRE, Scope::Platform, super::subject(&node), deadline_at)
        },
    ))
}
