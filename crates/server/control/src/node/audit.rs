//! Audit a node: compare its contents with the database.

use muster_api::Code;
use muster_api::node::NodeAudit;
use muster_authz::Permission;
use muster_engine::node::AUDIT;
use muster_model::Scope;
use muster_model::operation_input::OperationInput;
use serde_json::json;

use crate::operation::{Submission, submit};
use crate::{Cx, Error, PreparedCommand, Result};

/// Prepares `node_audit`.
pub async fn audit(cx: &Cx, reference: &str, body: NodeAudit) -> Result<PreparedCommand> {
    cx.authorize(Permission::NodeAudit, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    if node.retired_at.is_some() {
        return Err(Error::new(Code::InvalidState, "it is retired"));
    }
    let repair = body.repair.unwrap_or(false);
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    Ok(submit(
        cx,
        Submission {
            input: OperationInput { repair, ..OperationInput::default() },
            event_data: json!({"name": node.name, "repair": repair}),
            before: Some(json!({"state": node.state, "cordoned": node.cordoned, "draining": node.draining})),
            dry_run: body.dry_run.unwrap_or(false),
            ..Submission::on(&AUDIT, Scope::Platform, super::subject(&node), deadline_at)
        },
    ))
}
