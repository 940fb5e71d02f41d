//! Creates an allocation: claim (undo: release) · prepare (undo: destroy and wipe) · verify.

use muster_db::Result;
use muster_model::allocation::{Allocation, AllocationState, FailureReason};
use muster_model::event::EventType;
use muster_model::node::Capacity;
use muster_model::operation::{OperationKind, OperationState};
use serde_json::json;

use super::claim::CLAIM;
use super::prepare::PREPARE;
use super::subject::{path, subject};
use super::verify_active::VERIFY_ACTIVE;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{StepAction, StepOutcome};

/// `allocation.create`.
pub const CREATE: Definition = Definition {
    kind: OperationKind::AllocationCreate,
    steps: &[CLAIM, PREPARE, VERIFY_ACTIVE],
    on_failure: OnFailure::Undo,
    at_deadline: AtDeadline::Undo,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Attest,
    resolvable_by: "operator",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// Fails an allocation that was not created, with the reason, and returns its quota.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    if state == OperationState::Succeeded || allocation.state.is_final() {
        return Ok(StepOutcome::done().into());
    }
    let reason = match state {
        OperationState::Cancelled => FailureReason::Cancelled,
        _ => why(cx, &allocation).await?,
    };
    let message = cx.operation.message.clone();
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            let after = Allocation {
                state: AllocationState::Failed,
                reason: Some(reason),
                message,
                ..allocation.clone()
            };
            tx.allocation_move(&allocation, &after, now).await?;
            tx.quota_take(allocation.project_id, -1, allocation.capacity.to(&Capacity::default())).await?;
            let data = json!({"reason": reason, "advice": reason.advice()});
            effects.events.push((EventType::AllocationFailed, path(&after), data));
            Ok(StepOutcome::done())
        })
    }))
}

/// Returns the operation's reason, made more specific for a deadline so that the owner can act on it.
async fn why(cx: &StepCx<'_>, allocation: &Allocation) -> Result<FailureReason> {
    let given = cx.operation.reason.as_deref().and_then(FailureReason::parse);
    let given = given.unwrap_or(FailureReason::PrepareFailed);
    let (Some(node), FailureReason::DeadlinePassed) = (allocation.node_id, given) else { return Ok(given) };
    let node = cx.store.node_lookup(node).await?;
    Ok(match node {
        Some(node) if node.unreachable_since.is_some() => FailureReason::NodeUnreachable,
        _ => FailureReason::PrepareTimeout,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use muster_ids::Env;

    use super::*;

    /// An allocation for tests of pure functions.
    pub(crate) fn allocation(incarnation: i64) -> Allocation {
        let env = Env::for_tests(1);
        let made = Allocation::requested(env.id(), env.id(), env.id(), "a", Capacity::default(), env.now());
        Allocation { state: AllocationState::Provisioning, node_id: Some(env.id()), incarnation, ..made }
    }
}
