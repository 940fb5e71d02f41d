//! What all commands that start an operation on an allocation have in common.

use jiff::Timestamp;
use muster_api::operations::Started;
use muster_api::{Code, Problem};
use muster_ids::{OperationId, TypedId as _};
use muster_model::allocation::Allocation;
use muster_model::event::EventType;
use muster_model::operation::Operation;
use muster_operations::{Definition, Open, open, supersede};
use serde_json::{Value, json};

use super::path;
use crate::capacity::amounts;
use crate::commit::{WriteError, target};
use crate::refuse::{Result, refuse};
use crate::{Answer, Commit, Cx, operation};

/// An operation on an allocation that exists.
pub(super) struct Act {
    pub(super) allocation: Allocation,
    pub(super) definition: &'static Definition,
    pub(super) input: Value,
    pub(super) deadline_at: Timestamp,
    pub(super) told: Value,
    pub(super) dry_run: bool,
    /// Whether what is under way is taken over, or waited for.
    pub(super) supersedes: bool,
}

/// Prepares it.
pub(super) async fn act(cx: &Cx, act: Act) -> Result<Commit> {
    let Act { allocation, definition, input, deadline_at, told, dry_run, supersedes } = act;
    let subject_id = allocation.id.uuid();
    let mut plan = operation::plan(definition, &[allocation.id.to_string()], deadline_at);
    plan.capacity = Some(amounts(&allocation.capacity));
    let (scope, subject) = (allocation.scope(), target("allocation", allocation.id, &allocation.name));
    if dry_run {
        let answer = Answer::new(&Started { operation: None, plan });
        let commit = Commit::new(scope, subject, move |_| Box::pin(async move { Ok(answer) }));
        return Ok(commit.detail(json!({"dry_run": true})));
    }
    let under_way = cx.platform.store.operation_open_on(subject_id).await.map_err(refuse)?;
    if let Some(same) = under_way.iter().find(|operation| operation.kind == definition.kind) {
        let detail =
            format!("{} is already under way: `muster operation get {}` shows how far", same.kind, same.id);
        return Err(Problem::new(Code::InvalidState, detail));
    }
    let id: OperationId = cx.platform.world.id();
    let mut opened = open(
        definition,
        Open {
            id,
            scope,
            subject_kind: "allocation",
            subject_id,
            subject_name: allocation.name.clone(),
            touches: vec![subject_id],
            asked_by: operation::asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input,
            deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    let (subject_path, now) = (path(&allocation), cx.now);
    let kind = definition.kind;
    let superseded: Vec<OperationId> =
        if supersedes { under_way.iter().map(|operation| operation.id).collect() } else { Vec::new() };
    let commit = Commit::new(scope, subject, move |tx| {
        Box::pin(async move {
            for old in under_way.iter().filter(|_| supersedes) {
                supersede(tx, old, &mut opened, now).await?;
            }
            tx.operation_open(&opened).await?;
            Ok::<_, WriteError>(started(&opened, plan))
        })
    });
    let mut told = told;
    told["operation_id"] = json!(id);
    told["kind"] = json!(kind);
    if !superseded.is_empty() {
        told["supersedes"] = json!(superseded);
    }
    Ok(commit.wakes_engine().event(cx, EventType::OperationAccepted, subject_path, told))
}

/// The answer of a command that started an operation.
pub(crate) fn started(opened: &Operation, plan: muster_api::operations::Plan) -> Answer {
    Answer::new(&Started { operation: Some(operation::view(opened)), plan })
}
