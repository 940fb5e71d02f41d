//! Decide how a parked operation goes on.

use muster_api::operations::{self as api, OperationUnblock};
use muster_api::{Code, Problem};
use muster_authz::Permission;
use muster_engine::{Unblocked, definition, unblock as decide};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::event::EventType;
use muster_model::operation::{OperationState, Unblock};
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::{path, view_for};
use crate::commit::{WriteError, target};
use crate::refuse::{Result, refuse};
use crate::{Answer, Commit, Cx};

fn choice_of(choice: api::Unblock) -> Unblock {
    match choice {
        api::Unblock::Retry => Unblock::Retry,
        api::Unblock::Compensate => Unblock::Compensate,
        api::Unblock::AcceptPartial => Unblock::AcceptPartial,
        api::Unblock::Abandon => Unblock::Abandon,
    }
}

/// Prepares `operation_unblock`.
pub async fn unblock(cx: &Cx, reference: &str, body: OperationUnblock) -> Result<Commit> {
    let operation = cx.operation(reference).await?;
    cx.authorize(Permission::OperationUnblock, operation.scope(), "operation")?;
    let choice = choice_of(body.choice);
    let not_parked = || Problem::new(Code::InvalidState, "it is not parked");
    let parked = operation.parked.as_ref().ok_or_else(not_parked)?;
    if !parked.choices.contains(&choice) {
        let choices: Vec<&str> = parked.choices.iter().map(|choice| choice.as_str()).collect();
        let detail = format!("{} is not one of its choices: {}", choice.as_str(), choices.join(", "));
        return Err(Problem::new(Code::InvalidState, detail));
    }
    // Retrying is harmless; everything else about a machine is for whoever runs the machines to decide.
    if choice != Unblock::Retry && parked.unblock_by == "operator" && !cx.is_operator() {
        return Err(Problem::new(Code::PermissionDenied, "only an operator can decide this; you can retry"));
    }
    let statement = body.statement.clone();
    if choice == Unblock::Abandon && statement.is_none() {
        return Err(Problem::field("/statement", "say what you know: it stands in for the evidence"));
    }
    let kind = definition(&operation.kind).ok_or_else(|| Problem::not_found("operation"))?;
    let allocation = match operation.subject_kind.as_str() {
        "allocation" => {
            let id = AllocationId::from_uuid(operation.subject_id);
            cx.platform.store.allocation_lookup(id).await.map_err(refuse)?
        }
        _ => None,
    };
    let attested = Witness {
        id: cx.platform.world.id(),
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
    let (subject, named) = (path(&operation), target("operation", operation.id, &operation.kind));
    let told = json!({"kind": operation.kind, "choice": choice.as_str(), "statement": statement.unwrap_or_default()});
    let (id, scope, to_operator) = (operation.id, operation.scope(), cx.is_operator());
    let before = view_for(to_operator, &operation);
    let commit = Commit::new(scope, named, move |tx| {
        Box::pin(async move {
            let gone = || Problem::new(Code::InvalidState, "it has ended meanwhile");
            let mut fresh = tx.operation_seize(id).await?.ok_or_else(gone)?;
            match decide(&mut fresh, kind, &timing, choice, now) {
                None => return Err(Problem::new(Code::InvalidState, "it is not parked any more").into()),
                Some(Unblocked::GoesOn) => tx.operation_advance(&fresh, now, None).await?,
                Some(Unblocked::Attested) => {
                    tx.witness_insert(&attested).await?;
                    tx.operation_advance(&fresh, now, None).await?;
                }
            }
            debug_assert!(fresh.state != OperationState::Parked);
            fresh.version += 1;
            Ok::<_, WriteError>(Answer::new(&view_for(to_operator, &fresh)))
        })
    });
    Ok(commit.before(&before).wakes_engine().event(cx, EventType::OperationUnblocked, subject, told))
}
