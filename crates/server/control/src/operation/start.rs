//! What all commands that start an operation on something that exists have in common.

use jiff::Timestamp;
use muster_api::operations::Started;
use muster_engine::{Definition, Open, open, supersede};
use muster_ids::OperationId;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::operation::Operation;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{asked_by, plan, view};
use crate::commit::{WriteError, target};
use crate::{Answer, Commit, Cx};

/// An operation to be started.
pub(crate) struct Start {
    pub(crate) definition: &'static Definition,
    pub(crate) scope: Scope,
    /// `allocation` or `node`.
    pub(crate) subject_kind: &'static str,
    pub(crate) subject_id: Uuid,
    /// The same as people write it.
    pub(crate) subject: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) input: Value,
    pub(crate) deadline_at: Timestamp,
    /// What the event and the audit say beside the operation itself.
    pub(crate) told: Value,
    /// The values before it, for the audit.
    pub(crate) before: Value,
    pub(crate) capacity: Option<muster_api::capacity::Capacity>,
    /// What is under way and is taken over.
    pub(crate) supersedes: Vec<Operation>,
    pub(crate) dry_run: bool,
}

/// Prepares it: the plan alone for a dry run, which passes the door like any command but leaves nothing.
pub(crate) fn start(cx: &Cx, start: Start) -> Commit {
    start_with(cx, start, Vec::new())
}

/// The same, with what it works on beside its subject, for the plan.
pub(crate) fn start_with(cx: &Cx, start: Start, others: Vec<String>) -> Commit {
    let Start { definition, scope, subject_kind, subject_id, name, input, deadline_at, supersedes, .. } =
        start;
    let mut touched = vec![start.subject.clone()];
    touched.extend(others);
    let mut shown = plan(definition, &touched, deadline_at);
    shown.capacity = start.capacity;
    let named = target(subject_kind, &start.subject, &name);
    if start.dry_run {
        let answer = Answer::new(&Started { operation: None, plan: shown });
        let commit = Commit::new(scope, named, move |_| Box::pin(async move { Ok(answer) }));
        return commit.detail(json!({"dry_run": true}));
    }
    let id: OperationId = cx.platform.world.id();
    let mut opened = open(
        definition,
        Open {
            id,
            scope,
            subject_kind,
            subject_id,
            subject_name: name,
            touches: vec![subject_id],
            shares: Vec::new(),
            asked_by: asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input,
            deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    let mut told = start.told;
    told["operation_id"] = json!(id);
    told["kind"] = json!(definition.kind);
    if !supersedes.is_empty() {
        told["supersedes"] = json!(supersedes.iter().map(|old| old.id).collect::<Vec<_>>());
    }
    let (now, world) = (cx.now, cx.platform.world.clone());
    let ended: Vec<(String, Value)> = supersedes
        .iter()
        .map(|old| {
            let data =
                json!({"kind": old.kind, "state": "superseded", "operation_id": old.id, "superseded_by": id});
            (super::path(old), data)
        })
        .collect();
    let commit = Commit::new(scope, named, move |tx| {
        Box::pin(async move {
            for old in &supersedes {
                supersede(tx, &world, old, &mut opened, now).await?;
            }
            tx.operation_open(&opened).await?;
            Ok::<_, WriteError>(started(&opened, shown))
        })
    });
    let commit = ended
        .into_iter()
        .fold(commit, |commit, (path, data)| commit.event(cx, EventType::OperationEnded, path, data));
    commit.before(&start.before).wakes_engine().event(cx, EventType::OperationAccepted, start.path, told)
}

/// The answer of a command that started an operation.
pub(crate) fn started(opened: &Operation, plan: muster_api::operations::Plan) -> Answer {
    Answer::new(&Started { operation: Some(view(opened)), plan })
}
