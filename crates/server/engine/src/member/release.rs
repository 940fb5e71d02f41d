//! Releases the allocation that was made for a member once no other member uses it: wiped, and verified.

use jiff::{SignedDuration, Timestamp};
use muster_db::{Result, Tx};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::cell::Cell;
use muster_model::event::Timeline;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::OperationState;
use muster_model::operation_input::OperationInput;

use super::quarantine::quarantine;
use super::subject::{refused, subject};
use crate::allocation::RELEASE as RELEASE_ALLOCATION;
use crate::child::{self, ChildRequest};
use crate::definition::{Step, StepCx, Undo};
use crate::{StepAction, StepOutcome, supersede};

pub(super) const RELEASE: Step = Step {
    name: "release",
    does: "wipe and release its own allocation",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("the capacity may be claimed again already"),
};

/// Interval at which the removal of another leaving member is checked.
const SOON: SignedDuration = SignedDuration::from_millis(200);

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let member = subject(cx).await?;
    match quarantine(cx, &member).await? {
        Some(act) => Ok(act),
        None => give_back(cx, &member).await,
    }
}

/// Releases the allocation made for a member; an allocation named by its owner is left alone.
pub(super) async fn give_back(cx: &StepCx<'_>, member: &Member) -> Result<StepAction> {
    let Some(id) = member.allocation_id.filter(|_| member.allocation_made) else {
        return Ok(StepOutcome::with_message("its allocation belongs to its owner").into());
    };
    let Some(allocation) = cx.store.allocation_lookup(id).await? else {
        return Ok(StepOutcome::with_message("it has none").into());
    };
    if allocation.state.is_final() {
        return Ok(StepOutcome::with_message(format!("it is {}", allocation.state)).into());
    }
    if is_released_by_parent(cx, member).await? {
        let (now, left) = (cx.now, Member { allocation_made: false, ..member.clone() });
        let member = member.clone();
        return Ok(StepAction::commit(move |tx, _| {
            Box::pin(async move {
                tx.member_move(&member, &left, now).await?;
                Ok(StepOutcome::with_message("its allocation is released by the operation that removes it"))
            })
        }));
    }
    if let Some(child) = child::find(cx, "release").await? {
        return Ok(match child.state {
            OperationState::Succeeded => StepOutcome::with_message("its allocation is released").into(),
            state if !state.is_final() => child::wait(cx, &child),
            _ => refused(MemberFailure::ProvisionFailed, child::why(&child)).into(),
        });
    }
    let under_way = cx.store.operation_open_on(id.uuid()).await?;
    let mut release = child::make(
        cx,
        "release",
        ChildRequest {
            definition: &RELEASE_ALLOCATION,
            subject_kind: "allocation",
            subject_id: id.uuid(),
            subject_name: allocation.name.clone(),
            timeline: Timeline::default(),
            input: OperationInput::default(),
            deadline_at: cx.now + cx.timing.release,
        },
    );
    let (now, look, member, env) = (cx.now, cx.timing.look, member.clone(), cx.env.clone());
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            if let Some(outcome) = keeps(tx, &member, id, now).await? {
                return Ok(outcome);
            }
            // Each of them: a release of its owner may wait for this very removal.
            for old in under_way {
                supersede(tx, &env, &old, &mut release, now).await?;
            }
            tx.operation_open(&release).await?;
            Ok(StepOutcome::Wait { reason: "its allocation is being released".to_owned(), until: now + look })
        })
    }))
}

/// Explains why an allocation is not released with this member, if so: others use it. Decided inside the transaction, so
/// that an allocation in use by another member or cell is never wiped.
pub(super) async fn keeps(
    tx: &mut Tx,
    member: &Member,
    id: AllocationId,
    now: Timestamp,
) -> Result<Option<StepOutcome>> {
    let mut others = tx.member_in_now(id).await?;
    others.retain(|other| other.id != member.id);
    let cells = tx.cell_live_in_now(id).await?;
    Ok(match whose(member, &others, &cells) {
        Whose::Nobodys => None,
        Whose::Members(other) => {
            let left = Member { allocation_made: false, ..member.clone() };
            tx.member_move(member, &left, now).await?;
            tx.member_move(other, &Member { allocation_made: true, ..other.clone() }, now).await?;
            Some(StepOutcome::with_message(format!(
                "{} is in it, and the allocation is released with that",
                other.name
            )))
        }
        Whose::Owners(cell) => {
            let left = Member { allocation_made: false, ..member.clone() };
            tx.member_move(member, &left, now).await?;
            Some(StepOutcome::with_message(format!(
                "the cell {} is in it: it belongs to its owner and stays",
                cell.name
            )))
        }
        Whose::Leaving(other) => {
            let reason = format!("waiting until {} is removed from it", other.name);
            Some(StepOutcome::Wait { reason, until: now + SOON })
        }
    })
}

/// Reports whether a member is removed because its allocation is being released: then only the parent releases it.
pub(super) async fn is_released_by_parent(cx: &StepCx<'_>, member: &Member) -> Result<bool> {
    let Some(parent) = cx.operation.parent_id else { return Ok(false) };
    let parent = cx.store.operation_lookup(parent).await?;
    Ok(parent.is_some_and(|parent| {
        parent.kind == RELEASE_ALLOCATION.kind
            && member.allocation_id.is_some_and(|id| id.uuid() == parent.subject_id)
    }))
}

/// Other users of an allocation when the member that it was made for leaves.
enum Whose<'w> {
    /// None.
    Nobodys,
    /// Another member that stays.
    Members(&'w Member),
    /// A cell of the owner that belongs to no member.
    Owners(&'w Cell),
    /// Another member that is being removed too.
    Leaving(&'w Member),
}

fn whose<'w>(member: &Member, others: &'w [Member], cells: &'w [Cell]) -> Whose<'w> {
    let goes = |other: &&Member| other.state == MemberState::Removing;
    let bare = |cell: &&Cell| Some(cell.id) != member.cell_id && cell.member_id.is_none();
    match (others.iter().find(|other| !goes(other)), cells.iter().find(bare), others.first()) {
        (Some(stays), ..) => Whose::Members(stays),
        (None, Some(cell), _) => Whose::Owners(cell),
        (None, None, Some(leaving)) => Whose::Leaving(leaving),
        (None, None, None) => Whose::Nobodys,
    }
}

/// Reports whether the member's removal also releases its allocation.
pub(super) async fn takes_along(cx: &StepCx<'_>, member: &Member) -> Result<bool> {
    let Some(id) = member.allocation_id.filter(|_| member.allocation_made) else { return Ok(false) };
    let mut others = cx.store.member_in(id).await?;
    others.retain(|other| other.id != member.id);
    let cells = cx.store.cell_live_in(id).await?;
    Ok(matches!(whose(member, &others, &cells), Whose::Nobodys))
}
