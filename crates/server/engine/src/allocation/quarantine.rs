//! Leaves the rest of a forced release to the platform if it is on an unreachable node: the allocation stays `releasing` and
//! keeps its capacity, quarantined, until the node returns and it is wiped, or an operator attests. The tenant does not wait
//! for a machine that it cannot bring back, and nothing is reported released without evidence.

use muster_db::Result;
use muster_ids::OperationId;
use muster_model::allocation::Allocation;
use muster_model::event::EventType;
use muster_model::operation::{OperationKind, OperationState};
use serde_json::json;

use super::subject::{path, subject};
use crate::advance::is_of_quarantine;
use crate::definition::StepCx;
use crate::member::platform_cleanup;
use crate::step_outcome::QUARANTINED;
use crate::{StepAction, StepOutcome};

/// Returns what a forced release does instead of waiting for an unreachable node, if that is its case: it ends. An
/// attestation is looked for before.
pub(super) async fn quarantine(cx: &StepCx<'_>, allocation: &Allocation) -> Result<Option<StepAction>> {
    // The parent of a child waits for the node, or is in quarantine itself.
    let waits = cx.operation.parent_id.is_some() || is_of_quarantine(cx.operation);
    if cx.operation.kind != OperationKind::AllocationRelease || !cx.operation.input.force || waits {
        return Ok(None);
    }
    let Some(node) = allocation.node_id else { return Ok(None) };
    let Some(node) = cx.store.node_lookup(node).await?.filter(|node| node.unreachable_since.is_some()) else {
        return Ok(None);
    };
    let cells = match cx.store.cell_live_in(allocation.id).await?.len() {
        0 => String::new(),
        1 => " and its cell".to_owned(),
        several => format!(" and its {several} cells"),
    };
    let message = format!(
        "node {} is unreachable: {}{cells} stay quarantined until the node returns or an operator attests",
        node.name, allocation.name
    );
    Ok(Some(StepOutcome::Refused { reason: QUARANTINED, message }.into()))
}

/// Hands a quarantined allocation over to the platform, with the removals of its members that wait for the node, in the
/// transaction that ends the tenant's release.
pub(super) async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let quarantined = cx.operation.reason.as_deref() == Some(QUARANTINED);
    if state != OperationState::Partial || !quarantined {
        return Ok(StepOutcome::done().into());
    }
    let (allocation, rest) = (subject(cx).await?, platform_cleanup(cx, "allocation")?);
    let mut children = cx.store.operation_children(cx.operation.id).await?;
    if let Some(superseded) = cx.operation.supersedes {
        children.extend(cx.store.operation_children(superseded).await?);
    }
    let open: Vec<OperationId> =
        children.iter().filter(|child| !child.state.is_final()).map(|child| child.id).collect();
    let (now, left_by) = (cx.now, cx.operation.id);
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            for id in open {
                let Some(mut removal) = tx.operation_seize(id).await? else { continue };
                removal.input.quarantined = Some(left_by);
                if let Some(blocked) = &mut removal.blocked {
                    blocked.resolvable_by = "operator".to_owned();
                }
                tx.operation_advance(&removal, now, None).await?;
            }
            tx.operation_open(&rest).await?;
            let data =
                json!({"name": allocation.name, "node_id": allocation.node_id, "finished_by": rest.id});
            effects.events.push((EventType::AllocationQuarantined, path(&allocation), data));
            Ok(StepOutcome::done())
        })
    }))
}
