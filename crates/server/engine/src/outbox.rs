//! Events of an operation's steps, of blocking and of its end, and the audit entry of its end.

use jiff::Timestamp;
use muster_db::{StoreError, Tx};
use muster_ids::{AuditId, Env, EventId, OperationId};
use muster_model::audit::{Actor, Entry, Outcome, Target};
use muster_model::event::{Draft, EventType};
use muster_model::operation::{Operation, OperationState, StepState};
use serde_json::{Value, json};

use crate::Effects;

/// Appends events, and the audit entry of the end, to the outbox.
pub(crate) async fn append(
    env: &Env,
    tx: &mut Tx,
    operation: &Operation,
    effects: &Effects,
    entry: Option<Entry>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if effects.events.is_empty() && entry.is_none() {
        return Ok(());
    }
    let drafts: Vec<Draft> = effects
        .events
        .iter()
        .map(|(event_type, subject, data)| Draft {
            id: env.id::<EventId>(),
            event_type: event_type.as_str().to_owned(),
            subject: subject.clone(),
            at: now,
            tenant_id: operation.tenant_id,
            project_id: operation.project_id,
            correlation_id: operation.correlation_id.clone(),
            actor_id: operation.asked_by.id.clone(),
            data: with_operation(data, operation.id),
        })
        .collect();
    let entry =
        entry.map(|entry| serde_json::to_string(&entry).expect("an audit entry is JSON")).unwrap_or_default();
    let events = serde_json::to_string(&drafts).expect("events are JSON");
    tx.outbox_append(env.uuid(), &operation.scope().chain(), &entry, &events).await
}

fn with_operation(data: &Value, id: OperationId) -> Value {
    let mut data = data.clone();
    if let Value::Object(object) = &mut data {
        object.insert("operation_id".to_owned(), json!(id));
    }
    data
}

/// The path of an operation.
pub(crate) fn path(operation: &Operation) -> String {
    format!("/v1/operations/{}", operation.id)
}

/// Derives the events of a state change: ended steps, blocking and escalation.
pub(crate) fn changed(before: &Operation, after: &Operation) -> Effects {
    let mut effects = Effects::default();
    let ended = |state: StepState| matches!(state, StepState::Done | StepState::Failed | StepState::Undone);
    for (was, is) in before.steps.iter().zip(&after.steps) {
        if was.state != is.state && ended(is.state) {
            let data = json!({"kind": after.kind, "step": is.name, "state": is.state, "message": is.message});
            effects.events.push((EventType::OperationStep, path(after), data));
        }
    }
    let escalated =
        |operation: &Operation| operation.blocked.as_ref().is_some_and(|blocked| blocked.escalated);
    if before.state != after.state
        && after.state == OperationState::Blocked
        && let Some(blocked) = &after.blocked
    {
        let data = json!({"kind": after.kind, "reason": blocked.reason, "resolvable_by": blocked.resolvable_by,
                          "escalates_at": blocked.escalates_at});
        effects.events.push((EventType::OperationBlocked, path(after), data));
    }
    if escalated(after) && !escalated(before) {
        let reason = after.blocked.as_ref().map(|blocked| blocked.reason.clone());
        let data = json!({"kind": after.kind, "reason": reason});
        effects.events.push((EventType::OperationEscalated, path(after), data));
    }
    effects
}

/// Builds the audit entry of the end; the start was audited with the command.
pub(crate) fn end_entry(operation: &Operation, id: AuditId, now: Timestamp) -> Entry {
    let outcome = match operation.state {
        OperationState::Failed => Outcome::Failed,
        _ => Outcome::Succeeded,
    };
    Entry {
        id,
        at: now,
        actor: Actor {
            kind: operation.asked_by.kind.clone(),
            id: operation.asked_by.id.clone(),
            name: operation.asked_by.name.clone(),
        },
        action: operation.kind.clone(),
        outcome,
        code: operation.reason.clone(),
        target: Some(Target {
            kind: operation.subject_kind.clone(),
            id: operation.subject_id.to_string(),
            name: Some(operation.subject_name.clone()),
        }),
        tenant_id: operation.tenant_id,
        project_id: operation.project_id,
        correlation_id: operation.correlation_id.clone(),
        count: 1,
        detail: json!({"operation_id": operation.id, "state": operation.state, "message": operation.message}),
    }
}
