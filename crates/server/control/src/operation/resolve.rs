//! Resolve a blocked operation.

use muster_api::Code;
use muster_api::operation::OperationResolve;
use muster_authz::Permission;
use muster_engine::{Unblocked, definition, resolve as decide};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::event::EventType;
use muster_model::operation::{OperationState, ResolveAction};
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::{path, view_for};
use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `operation_resolve`.
pub async fn resolve(cx: &Cx, reference: &str, body: OperationResolve) -> Result<PreparedCommand> {
    let operation = cx.operation(reference).await?;
    cx.authorize(Permission::OperationResolve, operation.scope(), "operation")?;
    let action = body.action;
    let not_parked = || Error::new(Code::InvalidState, "it is not blocked");
    let blocked = operation.blocked.as_ref().ok_or_else(not_parked)?;
    if !blocked.actions.contains(&action) {
        let actions: Vec<&str> = blocked.actions.iter().map(|action| action.as_str()).collect();
        let detail = format!("{} is not one of its actions: {}", action.as_str(), actions.join(", "));
        return Err(Error::new(Code::InvalidState, detail));
    }
    // Retrying is harmless; any other decision about a machine is up to its operator.
    if action != ResolveAction::Retry && blocked.resolvable_by == "operator" && !cx.is_operator() {
        return Err(Error::new(Code::PermissionDenied, "only an operator can choose this; you can retry"));
    }
    let statement = body.statement.clone();
    if action == ResolveAction::Abandon && statement.is_none() {
        return Err(Error::field("/statement", "add a statement of what you know: it replaces the evidence"));
    }
    let kind = definition(operation.kind).ok_or_else(|| Error::not_found("operation"))?;
    let allocation = match operation.subject_kind.as_str() {
        "allocation" => {
            let id = AllocationId::from_uuid(operation.subject_id);
            cx.platform.store.allocation_lookup(id).await?
        }
        _ => None,
    };
    let attested = Witness {
        id: cx.platform.env.id(),
        subject_id: operation.subject_id,
        transition: Transition::Wiped,
        kind: WitnessKind::Attested,
        incarnation: allocation.as_ref().map_or(0, |allocation| allocation.incarnation),
        operation_id: Some(operation.id),
        node_id: allocation.as_ref().and_then(|allocation| allocation.node_id),
        task_id: None,
        actor_id: Some(cx.actor_id()),
        checked: json!([]),
        result: json!({"statement": statement.clone().unwrap_or_default()}),
        at: cx.now,
    };
    let (now, timing) = (cx.now, *cx.platform.engine.timing());
    let (subject, named) = (path(&operation), target("operation", operation.id, operation.kind.as_str()));
    let told = json!({"kind": operation.kind, "action": action.as_str(), "statement": statement.unwrap_or_default()});
    let (id, scope, to_operator) = (operation.id, operation.scope(), cx.is_operator());
    let timeline = operation.timeline;
    let before = view_for(to_operator, &operation);
    let commit = PreparedCommand::new(scope, named, move |tx| {
        Box::pin(async move {
            let gone = || Error::new(Code::InvalidState, "it has ended meanwhile");
            let mut fresh = tx.operation_seize(id).await?.ok_or_else(gone)?;
            match decide(&mut fresh, kind, &timing, action, now) {
                None => return Err(Error::new(Code::InvalidState, "it is no longer blocked")),
                Some(Unblocked::GoesOn) => tx.operation_advance(&fresh, now, None).await?,
                Some(Unblocked::Attested) => {
                    tx.witness_insert(&attested).await?;
                    tx.operation_advance(&fresh, now, None).await?;
                }
            }
            debug_assert!(fresh.state != OperationState::Blocked);
            fresh.version += 1;
            Ok::<_, Error>(Answer::new(&view_for(to_operator, &fresh)))
        })
    });
    let commit = commit.timeline(timeline).before(&before).wakes_engine();
    Ok(commit.event(cx, EventType::OperationResolved, subject, told))
}
