//! Drain a node.

use jiff::SignedDuration;
use muster_api::node::NodeDrain;
use muster_api::operation::Started;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_engine::node::DRAIN;
use muster_ids::TypedId as _;
use muster_model::Scope;
use serde_json::json;

use super::drain_plan::planned_items;
use crate::commit::target;
use crate::operation::{Start, plan, start};
use crate::refuse::Result;
use crate::{Answer, Commit, Cx};

/// Prepares `node_drain`.
pub async fn drain(cx: &Cx, reference: &str, body: NodeDrain) -> Result<Commit> {
    cx.authorize(Permission::NodeDrain, Scope::Platform, "node")?;
    let node = cx.node(reference).await?;
    if node.retired_at.is_some() {
        return Err(Problem::new(Code::InvalidState, "it is retired"));
    }
    let seconds = i64::from(body.deadline_seconds.unwrap_or(3600));
    let deadline_at = cx.now + SignedDuration::from_secs(seconds);
    if body.dry_run.unwrap_or(false) {
        let mut shown = plan(&DRAIN, &[node.id.to_string()], deadline_at);
        shown.items = planned_items(cx, &node, body.force.unwrap_or(false)).await?;
        let answer = Answer::new(&Started { operation: None, plan: shown });
        let named = target("node", node.id, &node.name);
        let commit = Commit::new(Scope::Platform, named, move |_| Box::pin(async move { Ok(answer) }));
        return Ok(commit.detail(json!({"dry_run": true})));
    }
    super::none_under_way(cx, &node).await?;
    let (force, reason) = (body.force.unwrap_or(false), body.reason.unwrap_or_default());
    Ok(start(
        cx,
        Start {
            definition: &DRAIN,
            scope: Scope::Platform,
            subject_kind: "node",
            subject_id: node.id.uuid(),
            subject: node.id.to_string(),
            path: super::path(&node),
            input: json!({"force": force, "reason": reason}),
            deadline_at,
            told: json!({"name": node.name, "deadline_at": deadline_at, "force": force, "reason": reason}),
            before: json!({"state": node.state, "cordoned": node.cordoned, "draining": node.draining}),
            capacity: None,
            supersedes: Vec::new(),
            dry_run: false,
            name: node.name,
        },
    ))
}
