//! Empty a node.

use jiff::SignedDuration;
use muster_api::node::NodeDrain;
use muster_api::operations::Started;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_ids::TypedId as _;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_operations::node::DRAIN;
use muster_operations::{Open, open};
use serde_json::json;

use crate::commit::{WriteError, target};
use crate::refuse::Result;
use crate::{Answer, Commit, Cx, operation};

/// Prepares `node_drain`.
pub async fn drain(cx: &Cx, reference: &str, body: NodeDrain) -> Result<Commit> {
    let node = cx.node(reference).await?;
    cx.authorize(Permission::NodeDrain, Scope::Platform, "node")?;
    if node.retired_at.is_some() {
        return Err(Problem::new(Code::InvalidState, "it is retired"));
    }
    let seconds = i64::from(body.deadline_seconds.unwrap_or(3600));
    let deadline_at = cx.now + SignedDuration::from_secs(seconds);
    let plan = operation::plan(&DRAIN, &[node.id.to_string()], deadline_at);
    let named = target("node", node.id, &node.name);
    if body.dry_run.unwrap_or(false) {
        let answer = Answer::new(&Started { operation: None, plan });
        let commit = Commit::new(Scope::Platform, named, move |_| Box::pin(async move { Ok(answer) }));
        return Ok(commit.detail(json!({"dry_run": true})));
    }
    super::none_under_way(cx, &node).await?;
    let opened = open(
        &DRAIN,
        Open {
            id: cx.platform.world.id(),
            scope: Scope::Platform,
            subject_kind: "node",
            subject_id: node.id.uuid(),
            subject_name: node.name.clone(),
            touches: vec![node.id.uuid()],
            asked_by: operation::asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input: json!({"force": body.force.unwrap_or(false), "reason": body.reason.clone().unwrap_or_default()}),
            deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    let told = json!({"kind": "node.drain", "name": node.name, "operation_id": opened.id, "deadline_at": deadline_at,
                      "force": body.force.unwrap_or(false), "reason": body.reason.unwrap_or_default()});
    let subject = super::path(&node);
    let commit = Commit::new(Scope::Platform, named, move |tx| {
        Box::pin(async move {
            tx.operation_open(&opened).await?;
            Ok::<_, WriteError>(Answer::new(&Started { operation: Some(operation::view(&opened)), plan }))
        })
    });
    Ok(commit.wakes_engine().event(cx, EventType::OperationAccepted, subject, told))
}
