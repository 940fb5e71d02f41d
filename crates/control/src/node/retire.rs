//! Take an empty node out of the fleet.

use muster_api::node::NodeRetire;
use muster_api::operations::Started;
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_ids::TypedId as _;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::node::NodeState;
use muster_operations::node::RETIRE;
use muster_operations::{Open, open};
use serde_json::json;

use crate::commit::{WriteError, target};
use crate::refuse::Result;
use crate::{Answer, Commit, Cx, operation};

/// Prepares `node_retire`.
pub async fn retire(cx: &Cx, reference: &str, body: NodeRetire) -> Result<Commit> {
    let node = cx.node(reference).await?;
    cx.authorize(Permission::NodeRetire, Scope::Platform, "node")?;
    let invalid = |detail: String| Problem::new(Code::InvalidState, detail);
    if node.retired_at.is_some() {
        return Err(invalid("it is retired".to_owned()));
    }
    if node.holders > 0 {
        let detail = format!(
            "{} allocations hold something of it: drain it first (`muster node drain {}`)",
            node.holders, node.name
        );
        return Err(invalid(detail));
    }
    if matches!(node.state, NodeState::Ready | NodeState::Draining) {
        return Err(invalid(format!(
            "it may still get work: drain it first (`muster node drain {}`)",
            node.name
        )));
    }
    if body.attest.is_some() && node.unreachable_since.is_none() {
        return Err(Problem::field("/attest", "the node can be reached, so it is asked: leave this out"));
    }
    let deadline_at = cx.now + cx.platform.engine.timing().create;
    let plan = operation::plan(&RETIRE, &[node.id.to_string()], deadline_at);
    let named = target("node", node.id, &node.name);
    if body.dry_run.unwrap_or(false) {
        let answer = Answer::new(&Started { operation: None, plan });
        let commit = Commit::new(Scope::Platform, named, move |_| Box::pin(async move { Ok(answer) }));
        return Ok(commit.detail(json!({"dry_run": true})));
    }
    super::none_under_way(cx, &node).await?;
    let input = match &body.attest {
        Some(word) => json!({"attest": word}),
        None => json!({}),
    };
    let opened = open(
        &RETIRE,
        Open {
            id: cx.platform.world.id(),
            scope: Scope::Platform,
            subject_kind: "node",
            subject_id: node.id.uuid(),
            subject_name: node.name.clone(),
            touches: vec![node.id.uuid()],
            asked_by: operation::asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input,
            deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    let told = json!({"kind": "node.retire", "name": node.name, "operation_id": opened.id,
                      "attested": body.attest.is_some()});
    let subject = super::path(&node);
    let commit = Commit::new(Scope::Platform, named, move |tx| {
        Box::pin(async move {
            tx.operation_open(&opened).await?;
            Ok::<_, WriteError>(Answer::new(&Started { operation: Some(operation::view(&opened)), plan }))
        })
    });
    Ok(commit.wakes_engine().event(cx, EventType::OperationAccepted, subject, told))
}
