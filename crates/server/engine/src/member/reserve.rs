//! Reserves capacity for the successor before the old member is touched. If there is none, the replacement ends here and the
//! old member is unchanged.

use jiff::Timestamp;
use muster_db::{Result, Tx};
use muster_ids::Env;
use muster_model::allocation::AllocationState;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::{Operation, OperationKind};

use super::claim::{allocated, make};
use super::release::{give_back, keeps};
use super::subject::refused;
use super::swap::successor;
use crate::allocation::open_release;
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome, Timing, child};

pub(super) const RESERVE: Step = Step {
    name: "reserve",
    does: "reserve capacity for the successor",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::Run(|cx| Box::pin(undo(cx))),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let new = successor(cx).await?;
    // A newer replacement continues with the successor of an older one.
    if new.state != MemberState::Requested {
        return Ok(StepOutcome::with_message(format!("capacity for {} is reserved", new.name)).into());
    }
    if let Some(child) = child::find(cx, "allocation").await? {
        return Ok(allocated(cx, &child));
    }
    match new.allocation_id {
        Some(id) if !new.allocation_made => {
            let held = cx.store.allocation_lookup(id).await?;
            Ok(match held.filter(|held| held.state == AllocationState::Active) {
                Some(held) => StepOutcome::with_message(format!("it goes into {}", held.name)).into(),
                None => {
                    let why = "the named allocation is no longer active";
                    refused(MemberFailure::AllocationEnded, why).into()
                }
            })
        }
        _ => make(cx, new, MemberState::Requested, wait_until(cx)).await,
    }
}

/// Returns how long to wait in the queue for capacity, if the operation waits. The wait ends before the operation's
/// deadline, so that the replacement fails with the reason instead of being blocked by the deadline.
fn wait_until(cx: &StepCx<'_>) -> Option<Timestamp> {
    let waits = cx.operation.input.wait_for_room;
    let until = cx.operation.deadline_at - cx.timing.look * 2;
    (waits && until > cx.now).then_some(until)
}

async fn undo(cx: &StepCx<'_>) -> Result<StepAction> {
    if !child::ever(cx, "allocation").await? {
        return Ok(StepOutcome::with_message("nothing was reserved").into());
    }
    let new = successor(cx).await?;
    give_back(cx, &new).await
}

/// Releases the reservation of a successor that is not added, if its replacement has ended and cannot undo it.
pub(crate) async fn release_reserved(
    tx: &mut Tx,
    env: &Env,
    successor: &Member,
    replace: &Operation,
    timing: &Timing,
    now: Timestamp,
) -> Result<()> {
    let Some(id) = successor.allocation_id.filter(|_| successor.allocation_made) else { return Ok(()) };
    let Some(reserved) = tx.allocation_now(id).await?.filter(|held| !held.state.is_final()) else {
        return Ok(());
    };
    let under_way = tx.operation_open_on_now(muster_ids::TypedId::uuid(id)).await?;
    if under_way.iter().any(|operation| operation.kind == OperationKind::AllocationRelease) {
        return Ok(());
    }
    if keeps(tx, successor, id, now).await?.is_none() {
        open_release(tx, env, &reserved, under_way, replace, timing, now).await?;
    }
    Ok(())
}
