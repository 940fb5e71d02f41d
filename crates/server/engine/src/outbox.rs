//! Events of an operation's steps, of blocking and of its end, and the audit entry of its end.

use jiff::Timestamp;
use muster_db::{StoreError, Tx};
use muster_ids::Env;
use muster_model::audit::{Outcome, Target};
use muster_model::event::EventType;
use muster_model::operation::{Operation, OperationState, StepState};
use muster_model::origin::{Audited, Origin};
use serde_json::{Value, json};

use crate::Effects;

/// Appends events, and the audit entry of the end, to the outbox.
pub(crate) async fn append(
    env: &Env,
    tx: &mut Tx,
    operation: &Operation,
    effects: &Effects,
    end: Option<Audited>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let events = effects.events.iter().map(|(event_type, subject, data)| {
        let mut data = data.clone();
        if let Value::Object(object) = &mut data {
            object.insert("operation_id".to_owned(), json!(operation.id));
        }
        (*event_type, subject.clone(), data)
    });
    tx.outbox_append(env, &Origin::operation(operation, now), end, events.collect()).await
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

/// Returns the audit entry of the end; the start was audited with the command.
pub(crate) fn end(operation: &Operation) -> Audited {
    Audited {
        action: operation.kind.to_string(),
        target: Target {
            kind: operation.subject_kind.clone(),
            id: operation.subject_id.to_string(),
            name: Some(operation.subject_name.clone()),
        },
        outcome: match operation.state {
            OperationState::Failed => Outcome::Failed,
            _ => Outcome::Succeeded,
        },
        code: operation.reason.clone(),
        detail: json!({"operation_id": operation.id, "state": operation.state, "message": operation.message}),
    }
}
