//! Frees the allocation's resources; with that it is released. Only evidence or an operator's attestation leads here.

use muster_db::{Result, StoreError};
use muster_model::allocation::{Allocation, AllocationState};
use muster_model::event::EventType;
use muster_model::node::Capacity;
use serde_json::json;

use super::subject::{OnWord, path, subject};
use super::verify_wiped::VERIFY_WIPED;
use crate::definition::{Step, StepCx, Undo};
use crate::step_outcome::recorded;
use crate::{StepAction, StepOutcome};

pub(super) const FREE: Step = Step {
    name: "free",
    does: "return slots, CPUs, memory, disk and quota",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("the capacity may be claimed again already"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let allocation = subject(cx).await?;
    if allocation.state == AllocationState::Released {
        return Ok(StepOutcome::with_message("already released").into());
    }
    let evidence = cx.operation.step(VERIFY_WIPED.name);
    let witness = evidence.and_then(|step| step.witness_id).ok_or(StoreError::Corrupt("evidence"))?;
    let OnWord { attested } = recorded(cx.operation, &VERIFY_WIPED)?.unwrap_or_default();
    let now = cx.now;
    Ok(StepAction::commit(move |tx, effects| {
        Box::pin(async move {
            let held = allocation.held != Capacity::default();
            if let Some(node) = allocation.node_id.filter(|_| held) {
                tx.node_lock(node).await?;
                if attested {
                    let why = "released on an attestation; not verified to be clean";
                    tx.slot_quarantine_of(allocation.id, why, now).await?;
                }
                tx.unhold(node, allocation.id, &allocation.held, now).await?;
                tx.node_recount(node).await?;
            }
            let after = Allocation {
                state: AllocationState::Released,
                held: Capacity::default(),
                // A node that could not be verified and returns later reports an older incarnation, which is rejected.
                incarnation: allocation.incarnation + i64::from(attested),
                wiped_witness_id: Some(witness),
                ..allocation.clone()
            };
            tx.allocation_move(&allocation, &after, now).await?;
            let back = Capacity::default();
            tx.quota_take(allocation.project_id, -1, allocation.capacity.to(&back)).await?;
            tx.operation_wake_queued(now, 8).await?;
            let how = if attested { "attested" } else { "witnessed" };
            let data = json!({"witness_id": witness, "evidence": how});
            effects.events.push((EventType::AllocationReleased, path(&after), data));
            Ok(StepOutcome::done())
        })
    }))
}
