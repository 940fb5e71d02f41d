//! Logic shared by the commands on instances and members: an operation with children, submitted together with the rows that
//! it works on.

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use muster_api::Problem;
use muster_api::operation::{Plan, Started};
use muster_db::Tx;
use muster_engine::{Definition, Open, open, supersede};
use muster_ids::OperationId;
use muster_model::Scope;
use muster_model::event::EventType;
use muster_model::member::Member;
use muster_model::operation::{Item, ItemState, Operation};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{asked_by, path, plan, started};
use crate::commit::{WriteError, target};
use crate::outbox::EventDraft;
use crate::refuse::Result;
use crate::{Answer, Commit, Cx};

/// A request for an operation.
pub(crate) struct Begin {
    pub(crate) definition: &'static Definition,
    pub(crate) scope: Scope,
    /// `member` or `instance`.
    pub(crate) subject_kind: &'static str,
    pub(crate) subject_id: Uuid,
    /// Id of the subject in text form.
    pub(crate) subject: String,
    pub(crate) name: String,
    pub(crate) path: String,
    /// Exclusive locks.
    pub(crate) exclusive_locks: Vec<Uuid>,
    /// Shared locks.
    pub(crate) shared_locks: Vec<Uuid>,
    pub(crate) items: Vec<Item>,
    pub(crate) input: Value,
    pub(crate) deadline_at: Timestamp,
    /// Data of the event and the audit entry, beside the operation itself.
    pub(crate) told: Value,
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

impl Begin {
    /// Returns the plan.
    pub(crate) fn plan(definition: &Definition, touched: &[String], deadline_at: Timestamp) -> Plan {
        plan(definition, touched, deadline_at)
    }
}

/// Events of the rows' statements, or the error.
pub(crate) type Wrote = std::result::Result<Vec<EventDraft>, WriteError>;

/// Prepares the operation. `rows` are the statements that run first: they may still change the operation's input and items,
/// because only the transaction knows some of their values (the numbers in names, above all).
pub(crate) fn begin<W>(cx: &Cx, begin: Begin, rows: W) -> Commit
where
    W: for<'t> FnOnce(&'t mut Tx, &'t mut Operation) -> BoxFuture<'t, Wrote> + Send + 'static,
{
    let named = target(begin.subject_kind, &begin.subject, &begin.name);
    let (scope, shown) = (begin.scope, begin.plan);
    if begin.dry_run {
        let answer = Answer::new(&Started { operation: None, plan: shown });
        let commit = Commit::new(scope, named, move |_| Box::pin(async move { Ok(answer) }));
        return commit.detail(json!({"dry_run": true}));
    }
    let id: OperationId = cx.platform.env.id();
    let mut opened = open(
        begin.definition,
        Open {
            id,
            scope,
            subject_kind: begin.subject_kind,
            subject_id: begin.subject_id,
            subject_name: begin.name,
            exclusive_locks: begin.exclusive_locks,
            shared_locks: begin.shared_locks,
            asked_by: asked_by(cx),
            correlation_id: cx.correlation_id.clone(),
            input: begin.input,
            deadline_at: begin.deadline_at,
            parent_id: None,
            now: cx.now,
        },
    );
    opened.items = begin.items;
    let supersedes = begin.supersedes;
    let mut told = begin.told;
    told["operation_id"] = json!(id);
    told["kind"] = json!(begin.definition.kind);
    if !supersedes.is_empty() {
        told["supersedes"] = json!(supersedes.iter().map(|old| old.id).collect::<Vec<_>>());
    }
    let ended: Vec<EventDraft> = supersedes
        .iter()
        .map(|old| {
            let data =
                json!({"kind": old.kind, "state": "superseded", "operation_id": old.id, "superseded_by": id});
            (EventType::OperationEnded, path(old), data)
        })
        .collect();
    let (teller, now) = (cx.clone(), cx.now);
    let commit = Commit::new(scope, named, move |tx| {
        Box::pin(async move {
            let mut news = rows(tx, &mut opened).await?;
            for old in &supersedes {
                supersede(tx, &teller.platform.env, old, &mut opened, now).await?;
            }
            tx.operation_open(&opened).await?;
            news.extend(ended);
            teller.outbox_append(tx, scope, None, news).await?;
            Ok::<_, WriteError>(started(&opened, shown))
        })
    });
    let commit = match begin.before {
        Some(before) => commit.before(&before),
        None => commit,
    };
    commit.wakes_engine().event(cx, begin.event, begin.path, told)
}

/// Returns an operation's item for a member.
pub fn part_of(member: &Member) -> Item {
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
        return Err(Problem::field("/ready_until", "it is in the past"));
    }
    Ok(given.unwrap_or(cx.now + otherwise))
}
