//! Audit a node: compare its contents with the database.

use muster_api::node::NodeAudit;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_engine::node::AUDIT;
use muster_ids::TypedId as _;
use muster_model::Scope;
use serde_json::json;

use crate::operation::{Start, start};
use crate::refuse::Result;
use crate::{Commit, Cx};

/// Prepares `node_audit`.
pub async fn audit(cx: &Cx, reference: &str, body: NodeAudit) -> Result<Commit> {
    cx.authorize(Permission::NodeAudit, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    if node.retired_at.is_some() {
        return Err(Problem::new(Code::InvalidState, "it is retired"));
    }
    let repair = body.repair.unwrap_or(false);
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    Ok(start(
        cx,
        Start {
            definition: &AUDIT,
            scope: Scope::Platform,
            subject_kind: "node",
            subject_id: node.id.uuid(),
            subject: node.id.to_string(),
            path: super::path(&node),
            input: json!({"repair": repair}),
            deadline_at,
            told: json!({"name": node.name, "repair": repair}),
            before: json!({"state": node.state, "cordoned": node.cordoned, "draining": node.draining}),
            capacity: None,
            supersedes: Vec::new(),
            dry_run: body.dry_run.unwrap_or(false),
            name: node.name,
        },
    ))
}
