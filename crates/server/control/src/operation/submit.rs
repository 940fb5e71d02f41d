//! Submits an operation: shared by every command that starts one. A dry run answers with the plan alone.

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use muster_api::operation::{Plan, Started};
use muster_db::Tx;
use muster_engine::{Definition, OperationRequest, accept, supersede};
use muster_ids::{MemberId, OperationId, TypedId as _};
use muster_model::Scope;
use muster_model::event::{EventType, NewEvent, Timeline};
use muster_model::member::Member;
use muster_model::operation::{Item, ItemState, Operation};
use muster_model::operation_input::OperationInput;
use muster_model::origin::Origin;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{asked_by, path, plan, view};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// The resource of an operation.
pub(crate) struct Subject {
    pub(crate) kind: &'static str,
    pub(crate) uuid: Uuid,
    /// Its id in text form.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) path: String,
}

/// An operation to submit, with its event and its audit entry.
pub(crate) struct Submission {
    pub(crate) definition: &'static Definition,
    pub(crate) scope: Scope,
    pub(crate) subject: Subject,
    pub(crate) exclusive_locks: Vec<Uuid>,
    pub(crate) shared_locks: Vec<Uuid>,
    pub(crate) items: Vec<Item>,
    pub(crate) input: OperationInput,
    pub(crate) deadline_at: Timestamp,
    /// Data of the event and the audit entry, beside the operation itself.
    pub(crate) event_data: Value,
    /// Previous values, for the audit; none for a new resource.
    pub(crate) before: Option<Value>,
    /// Event type; the acceptance of an operation, if no other fits.
    pub(crate) event: EventType,
    /// Open operations to supersede.
    pub(crate) supersedes: Vec<Operation>,
    /// Plan in the response.
    pub(crate) plan: Plan,
    pub(crate) dry_run: bool,
}

impl Submission {
    /// Returns a submission that locks its subject exclusively and touches no other resource.
    pub(crate) fn on(
        definition: &'static Definition,
        scope: Scope,
        subject: Subject,
        deadline_at: Timestamp,
    ) -> Self {
        Self {
            definition,
            scope,
            exclusive_locks: vec![subject.uuid],
            shared_locks: Vec::new(),
            items: Vec::new(),
            input: OperationInput::default(),
            deadline_at,
            event_data: json!({}),
            before: None,
            event: EventType::OperationAccepted,
            supersedes: Vec::new(),
            plan: plan(definition, std::slice::from_ref(&subject.id), deadline_at),
            subject,
            dry_run: false,
        }
    }
}

/// Events of the rows' statements, or the error.
pub(crate) type Wrote = Result<Vec<NewEvent>>;

/// Prepares the operation.
pub(crate) fn submit(cx: &Cx, submission: Submission) -> PreparedCommand {
    submit_with(cx, submission, |_, _| Box::pin(async { Ok(Vec::new()) }))
}

/// Prepares the operation. `rows` are the statements that run first: they may still change the operation's input and items,
/// because only the transaction knows some of their values (the numbers in names, above all).
pub(crate) fn submit_with<W>(cx: &Cx, submission: Submission, rows: W) -> PreparedCommand
where
    W: for<'t> FnOnce(&'t mut Tx, &'t mut Operation) -> BoxFuture<'t, Wrote> + Send + 'static,
{
    let Submission { definition, scope, subject, supersedes, plan, mut event_data, .. } = submission;
    let audited = target(subject.kind, &subject.id, &subject.name);
    if submission.dry_run {
        let answer = Answer::new(&Started { operation: None, plan });
        let commit = PreparedCommand::new(scope, audited, move |_| Box::pin(async move { Ok(answer) }));
        return commit.detail(json!({"dry_run": true}));
    }
    let id: OperationId = cx.platform.env.id();
    // The path of a member that is about to be added is its instance's.
    let mut timeline = Timeline::of_path(&subject.path);
    if subject.kind == "member" {
        timeline.member_id = Some(MemberId::from_uuid(subject.uuid));
    }
    let mut operation = accept(
        definition,
        OperationRequest {
            id,
            scope,
            subject_kind: subject.kind,
            subject_id: subject.uuid,
            subject_name: subject.name,
            exclusive_locks: submission.exclusive_locks,
            shared_locks: submission.shared_locks,
            timeline,
            asked_by: asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input: submission.input,
            deadline_at: submission.deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    operation.items = submission.items;
    event_data["operation_id"] = json!(id);
    event_data["kind"] = json!(definition.kind);
    if !supersedes.is_empty() {
        event_data["supersedes"] = json!(supersedes.iter().map(|old| old.id).collect::<Vec<_>>());
    }
    let (writer, now) = (cx.clone(), cx.now);
    let commit = PreparedCommand::new(scope, audited, move |tx| {
        Box::pin(async move {
            let events = rows(tx, &mut operation).await?;
            for old in &supersedes {
                supersede(tx, &writer.platform.env, old, &mut operation, now).await?;
                let ended = vec![superseded(old, id)];
                let origin = Origin { timeline: old.timeline, ..writer.origin(scope) };
                writer.outbox_append(tx, &origin, None, ended).await?;
            }
            tx.operation_open(&operation).await?;
            writer
                .outbox_append(
                    tx,
                    &Origin { timeline: operation.timeline, ..writer.origin(scope) },
                    None,
                    events,
                )
                .await?;
            Ok::<_, Error>(started(&operation, plan))
        })
    });
    let commit = match submission.before {
        Some(before) => commit.before(&before),
        None => commit,
    };
    commit.wakes_engine().event(cx, submission.event, subject.path, event_data)
}

/// Returns the event of an operation that another one superseded.
pub fn superseded(old: &Operation, by: OperationId) -> NewEvent {
    let data = json!({"kind": old.kind, "state": "superseded", "operation_id": old.id, "superseded_by": by});
    (EventType::OperationEnded, path(old), data)
}

/// Returns the response of a command that started an operation.
pub(crate) fn started(operation: &Operation, plan: Plan) -> Answer {
    Answer::new(&Started { operation: Some(view(operation)), plan })
}

/// Returns an operation's item for a member.
pub fn item_of(member: &Member) -> Item {
    Item {
        id: member.id.to_string(),
        name: member.name.clone(),
        state: ItemState::Pending,
        operation_id: None,
        message: None,
    }
}

/// Returns an operation's deadline: the requested one, or the default.
pub(crate) fn deadline(cx: &Cx, given: Option<Timestamp>, otherwise: SignedDuration) -> Result<Timestamp> {
    if given.is_some_and(|time| time <= cx.now) {
        return Err(Error::field("/ready_until", "it is in the past"));
    }
    Ok(given.unwrap_or(cx.now + otherwise))
}
