//! Attest that nothing of an allocation is left, where no evidence can be collected.

use muster_api::Code;
use muster_api::allocation::AllocationAttest;
use muster_authz::Permission;
use muster_engine::{definition, resolve};
use muster_ids::TypedId as _;
use muster_model::event::EventType;
use muster_model::operation::{Operation, OperationKind, OperationState};
use muster_model::witness::{Transition, Witness, WitnessKind};
use serde_json::json;

use super::path;
use crate::commit::target;
use crate::operation::resume_blocked;
use crate::{Answer, Cx, Error, PreparedCommand, Result, operation};

/// Prepares `allocation_attest`. Only for unreachable nodes: a node that answers is always verified instead.
pub async fn attest(
    cx: &Cx,
    project: &str,
    reference: &str,
    body: AllocationAttest,
) -> Result<PreparedCommand> {
    let allocation = cx.allocation(project, reference).await?;
    cx.authorize(Permission::AllocationAttest, allocation.scope(), "allocation")?;
    let store = &cx.platform.store;
    let invalid = |detail: &str| Error::new(Code::InvalidState, detail.to_owned());
    let under_way = store.operation_open_on(allocation.id.uuid()).await?.pop();
    // An allocation that is being re-created for its owner cannot be attested; the owner releases it first.
    let undone = |operation: &Operation| {
        let blocked = operation.state == OperationState::Blocked;
        operation.kind == OperationKind::AllocationCreate
            && (blocked || operation.state == OperationState::Compensating)
    };
    let under_way = under_way
        .filter(|operation| operation.kind == OperationKind::AllocationRelease || undone(operation))
        .ok_or_else(|| invalid("release it first: an attestation ends a release, it does not start one"))?;
    let node = match allocation.node_id {
        Some(node) => store.node_lookup(node).await?,
        None => None,
    };
    if node.is_none_or(|node| node.unreachable_since.is_none()) {
        return Err(invalid(
            "its node is reachable: only an allocation on an unreachable node can be attested",
        ));
    }
    let witness = Witness {
        id: cx.platform.env.id(),
        subject_id: allocation.id.uuid(),
        transition: Transition::Wiped,
        kind: WitnessKind::Attested,
        incarnation: allocation.incarnation,
        operation_id: Some(under_way.id),
        node_id: allocation.node_id,
        task_id: None,
        actor_id: Some(cx.actor_id()),
        checked: json!([]),
        result: json!({"statement": body.statement}),
        at: cx.now,
    };
    let (now, timing, taker) = (cx.now, *cx.platform.engine.timing(), cx.clone());
    let subject = path(&allocation);
    let told = json!({"name": allocation.name, "statement": body.statement, "witness_id": witness.id});
    let named = target("allocation", allocation.id, &allocation.name);
    let to_operator = cx.is_operator();
    let before =
        json!({"state": allocation.state, "operation_id": under_way.id, "operation_state": under_way.state});
    let commit = PreparedCommand::new(allocation.scope(), named, move |tx| {
        Box::pin(async move {
            tx.witness_insert(&witness).await?;
            if let Some(mut fresh) = tx.operation_seize(under_way.id).await? {
                if let Some(kind) = definition(fresh.kind) {
                    let retry = muster_model::operation::ResolveAction::Retry;
                    resolve(&mut fresh, kind, &timing, retry, now);
                }
                fresh.due_at = now;
                tx.operation_advance(&fresh, now, None).await?;
            }
            // The cells in it and their members need not wait for the node any more.
            let waits = tx.operation_blocked_in(allocation.id).await?;
            resume_blocked(&taker, tx, waits).await?;
            Ok(Answer::new(&operation::witness(to_operator, &witness)))
        })
    });
    Ok(commit.before(&before).wakes_engine().event(cx, EventType::AllocationAttested, subject, told))
}
