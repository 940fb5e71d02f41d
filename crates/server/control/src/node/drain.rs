//! Drain a node.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::node::NodeDrain;
use muster_authz::Permission;
use muster_engine::node::DRAIN;
use muster_model::Scope;
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::drain_plan::planned_items;
use crate::operation::{Submission, submit};
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `node_drain`.
pub async fn drain(cx: &Cx, reference: &str, body: NodeDrain) -> Result<PreparedCommand> {
    cx.authorize(Permission::NodeDrain, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    if node.retired_at.is_some() {
        return Err(Error::new(Code::InvalidState, "it is retired"));
    }
    let seconds = i64::from(body.deadline_seconds.unwrap_or(3600));
    let deadline_at = cx.now + SignedDuration::from_secs(seconds);
    let (force, reason) = (body.force.unwrap_or(false), body.reason.unwrap_or_default());
    let mut submission = Submission {
        input: OperationInput { force, ..OperationInput::because(&reason) },
        event_data: json!({"name": node.name, "deadline_at": deadline_at, "force": force, "reason": reason}),
        before: Some(json!({"state": node.state, "cordoned": node.cordoned, "draining": node.draining})),
        dry_run: body.dry_run.unwrap_or(false),
        ..Submission::on(&DRAIN, Scope::Platform, super::subject(&node), deadline_at)
    };
    if submission.dry_run {
        submission.plan.items = planned_items(cx, &node, force).await?;
    } else {
        super::none_under_way(cx, &node).await?;
    }
    Ok(submit(cx, submission))
}
