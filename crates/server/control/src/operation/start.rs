//! Logic shared by all commands that start an operation on an existing resource.

use jiff::Timestamp;
use muster_api::operation::Started;
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

/// A request for an operation.
pub(crate) struct Start {
    pub(crate) definition: &'static Definition,
    pub(crate) scope: Scope,
    /// `allocation` or `node`.
    pub(crate) subject_kind: &'static str,
    pub(crate) subject_id: Uuid,
    /// Id of the subject in text form.
    pub(crate) subject: String,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) input: Value,
    pub(crate) deadline_at: Timestamp,
    /// Data of the event and the audit entry, beside the operation itself.
    pub(crate) told: Value,
    /// Previous values, for the audit.
    pub(crate) before: Value,
    pub(crate) capacity: Option<muster_api::capacity::Capacity>,
    /// Open operations to supersede.
    pub(crate) supersedes: Vec<Operation>,
    pub(crate) dry_run: bool,
}

/// Prepares the operation. A dry run returns only the plan: it passes the command pipeline like any command but leaves no
/// effect.
pub(crate) fn start(cx: &Cx, start: Start) -> Commit {
    start_with(cx, start, Vec::new())
}

/// Prepares the operation, with further affected resources for the plan.
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
    let id: OperationId = cx.platform.env.id();
    let mut opened = open(
        definition,
        Open {
            id,
            scope,
            subject_kind,
            subject_id,
            subject_name: name,
            exclusive_locks: vec![subject_id],
            shared_locks: Vec::new(),
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
    let (now, env) = (cx.now, cx.platform.env.clone());
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
                supersede(tx, &env, old, &mut opened, now).await?;
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

/// Returns the response of a command that started an operation.
pub(crate) fn started(opened: &Operation, plan: muster_api::operation::Plan) -> Answer {
    Answer::new(&Started { operation: Some(view(opened)), plan })
}
