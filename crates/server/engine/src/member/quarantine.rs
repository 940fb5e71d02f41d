//! Leaves the rest of a forced removal to the platform if it is on an unreachable node: the member is cut off, and its cell and
//! allocation stay as they are, quarantined, until the node returns and they are wiped, or an operator attests. The tenant
//! does not wait for a machine that it cannot bring back, and nothing is reported removed without evidence.

use muster_db::{Result, StoreError};
use muster_model::audit::Actor;
use muster_model::event::EventType;
use muster_model::member::Member;
use muster_model::node::Node;
use muster_model::operation::{Operation, OperationKind};
use muster_model::operation_input::OperationInput;
use serde_json::json;

use super::fence::ensure_cut_off;
use super::subject::{path, subject};
use crate::advance::is_of_quarantine;
use crate::allocation::attested;
use crate::proof::cell_of;
use crate::step_outcome::QUARANTINED;
use crate::{OperationRequest, StepAction, StepCx, StepOutcome, accept, definition};

/// Returns what a forced removal does instead of waiting for an unreachable node, if that is its case: it cuts the member
/// off, then ends.
pub(super) async fn quarantine(cx: &StepCx<'_>, member: &Member) -> Result<Option<StepAction>> {
    if !cx.operation.input.force || is_of_quarantine(cx.operation) || lingers(cx).await? {
        return Ok(None);
    }
    let Some((node, left)) = left_on_lost_node(cx, member).await? else { return Ok(None) };
    if let Some(act) = ensure_cut_off(cx, member).await? {
        return Ok(Some(act));
    }
    let message = format!(
        "node {} is unreachable: {} is cut off; {left} stay quarantined until the node returns or an operator attests",
        node.name, member.name
    );
    Ok(Some(StepOutcome::Refused { reason: QUARANTINED, message }.into()))
}

/// Reports whether the parent waits for the node itself: a replacement or a release does.
async fn lingers(cx: &StepCx<'_>) -> Result<bool> {
    let Some(parent) = cx.operation.parent_id else { return Ok(false) };
    let parent = cx.store.operation_lookup(parent).await?;
    Ok(parent.is_some_and(|parent| {
        matches!(parent.kind, OperationKind::MemberReplace | OperationKind::AllocationRelease)
    }))
}

/// Returns the unreachable node of a member and names what is left there, unless an operator has attested that nothing is.
async fn left_on_lost_node(cx: &StepCx<'_>, member: &Member) -> Result<Option<(Node, String)>> {
    let cell = cell_of(cx, member).await?.filter(|cell| !cell.state.is_final());
    let allocation = match member.allocation_id {
        Some(id) => cx.store.allocation_lookup(id).await?.filter(|held| !held.state.is_final()),
        None => None,
    };
    let made = allocation.as_ref().filter(|_| member.allocation_made);
    let node = cell.as_ref().map(|cell| cell.node_id).or(made.and_then(|held| held.node_id));
    let Some(node) = node else { return Ok(None) };
    let node = cx.store.node_lookup(node).await?.filter(|node| node.unreachable_since.is_some());
    if let Some(held) = &allocation
        && attested(cx, held).await?.is_some()
    {
        return Ok(None);
    }
    let cell = cell.map(|cell| format!("its cell {}", cell.name));
    let made = made.map(|held| format!("its allocation {}", held.name));
    let left: Vec<String> = cell.into_iter().chain(made).collect();
    Ok(node.map(|node| (node, left.join(" and "))))
}

/// Builds the platform's operation that finishes what this forced one, of the same kind, leaves in quarantine.
pub(crate) fn platform_cleanup(cx: &StepCx<'_>, subject_kind: &'static str) -> Result<Operation> {
    let tenants = cx.operation;
    let definition = definition(tenants.kind).ok_or(StoreError::Corrupt("a kind of an operation"))?;
    Ok(accept(
        definition,
        OperationRequest {
            id: cx.env.id(),
            scope: tenants.scope(),
            subject_kind,
            subject_id: tenants.subject_id,
            subject_name: tenants.subject_name.clone(),
            exclusive_locks: vec![tenants.subject_id],
            // Operations on the whole instance do not wait for the node.
            shared_locks: Vec::new(),
            timeline: tenants.timeline,
            asked_by: Actor::platform("quarantine"),
            correlation_id: tenants.correlation_id.clone(),
            input: OperationInput { quarantined: Some(tenants.id), ..OperationInput::forced(true) },
            deadline_at: cx.now + cx.timing.release,
            parent_id: None,
            now: cx.now,
        },
    ))
}

/// Hands the member over to the platform, in the transaction that ends the tenant's removal. With the whole instance, the
/// decommission does that.
pub(super) async fn hand_over(cx: &StepCx<'_>) -> Result<StepAction> {
    if cx.operation.input.with_instance {
        return Ok(StepOutcome::done().into());
    }
    let (member, rest) = (subject(cx).await?, platform_cleanup(cx, "member")?);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            tx.operation_open(&rest).await?;
            let data = json!({"name": member.name, "component_key": member.component_key,
                              "allocation_id": member.allocation_id, "cell_id": member.cell_id,
                              "finished_by": rest.id});
            effects.events.push((EventType::MemberQuarantined, path(&member), data));
            Ok(StepOutcome::done())
        })
    }))
}
