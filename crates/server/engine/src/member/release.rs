//! Give back the allocation that was made for a member, once nobody else is in it: wiped, and seen to be.

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use muster_db::{Result, Tx};
use muster_ids::{AllocationId, TypedId as _};
use muster_model::cell::Cell;
use muster_model::member::{Member, MemberFailure, MemberState};
use muster_model::operation::OperationState;
use serde_json::json;

use super::subject::{refused, subject};
use crate::allocation::RELEASE as RELEASE_ALLOCATION;
use crate::child::{self, Part};
use crate::definition::{Step, StepCx, Undo};
use crate::{Act, Verdict, supersede};

pub(super) const RELEASE: Step = Step {
    name: "release",
    does: "wipes and releases the allocation that was made for it",
    verifies: false,
    run,
    undo: Undo::None("what is free may belong to somebody else already"),
};

/// How soon it is looked again whether another is gone that goes at the same time.
const SOON: SignedDuration = SignedDuration::from_millis(200);

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let member = subject(cx).await?;
        give_back(cx, &member).await
    })
}

/// Releases what was made for a member; what its owner named is left alone.
pub(super) async fn give_back(cx: &StepCx<'_>, member: &Member) -> Result<Act> {
    let Some(id) = member.allocation_id.filter(|_| member.allocation_made) else {
        return Ok(Verdict::said("its allocation is its owner's").into());
    };
    let Some(allocation) = cx.store.allocation_lookup(id).await? else {
        return Ok(Verdict::said("there is none").into());
    };
    if allocation.state.is_final() {
        return Ok(Verdict::said(format!("it is {}", allocation.state)).into());
    }
    if is_released_by_parent(cx, member).await? {
        let (now, left) = (cx.now, Member { allocation_made: false, ..member.clone() });
        let member = member.clone();
        return Ok(Act::write(move |tx, _| {
            Box::pin(async move {
                tx.member_move(&member, &left, now).await?;
                Ok(Verdict::said("its allocation is released by the operation that removes it"))
            })
        }));
    }
    if let Some(child) = child::find(cx, "release").await? {
        return Ok(match child.state {
            OperationState::Succeeded => Verdict::said("its allocation is released").into(),
            state if !state.is_final() => child::wait(cx, &child),
            _ => refused(MemberFailure::ProvisionFailed, child::why(&child)).into(),
        });
    }
    let under_way = cx.store.operation_open_on(id.uuid()).await?.pop();
    let mut release = child::make(
        cx,
        "release",
        Part {
            definition: &RELEASE_ALLOCATION,
            subject_kind: "allocation",
            subject_id: id.uuid(),
            subject_name: allocation.name.clone(),
            input: json!({}),
            deadline_at: cx.now + cx.timing.release,
        },
    );
    let (now, look, member, world) = (cx.now, cx.timing.look, member.clone(), cx.world.clone());
    Ok(Act::write(move |tx, _| {
        Box::pin(async move {
            if let Some(verdict) = keeps(tx, &member, id, now).await? {
                return Ok(verdict);
            }
            if let Some(old) = under_way {
                supersede(tx, &world, &old, &mut release, now).await?;
            }
            tx.operation_open(&release).await?;
            Ok(Verdict::Wait { reason: "its allocation is being released".to_owned(), until: now + look })
        })
    }))
}

/// Why an allocation is not released with this member, if it is not: others are in it. Decided inside the transaction, so that
/// what is wiped is in use by no other member or cell.
pub(super) async fn keeps(
    tx: &mut Tx,
    member: &Member,
    id: AllocationId,
    now: Timestamp,
) -> Result<Option<Verdict>> {
    let mut others = tx.member_in_now(id).await?;
    others.retain(|other| other.id != member.id);
    let cells = tx.cell_live_in_now(id).await?;
    Ok(match whose(member, &others, &cells) {
        Whose::Nobodys => None,
        Whose::Members(other) => {
            let left = Member { allocation_made: false, ..member.clone() };
            tx.member_move(member, &left, now).await?;
            tx.member_move(other, &Member { allocation_made: true, ..other.clone() }, now).await?;
            Some(Verdict::said(format!("{} is in it, and it is released with that", other.name)))
        }
        Whose::Owners(cell) => {
            let left = Member { allocation_made: false, ..member.clone() };
            tx.member_move(member, &left, now).await?;
            Some(Verdict::said(format!("the cell {} is in it: it is its owner's, and stays", cell.name)))
        }
        Whose::Leaving(other) => {
            let reason = format!("{} is in it and on its way out, and has to be gone first", other.name);
            Some(Verdict::Wait { reason, until: now + SOON })
        }
    })
}

/// Whether a member is removed because its allocation is being released: then nothing else releases that.
pub(super) async fn is_released_by_parent(cx: &StepCx<'_>, member: &Member) -> Result<bool> {
    let Some(parent) = cx.operation.parent_id else { return Ok(false) };
    let parent = cx.store.operation_lookup(parent).await?;
    Ok(parent.is_some_and(|parent| {
        parent.kind == RELEASE_ALLOCATION.kind
            && member.allocation_id.is_some_and(|id| id.uuid() == parent.subject_id)
    }))
}

/// Whose an allocation is when the member goes that it was made for.
enum Whose<'w> {
    /// Nobody else is in it.
    Nobodys,
    /// Another member is in it, and stays.
    Members(&'w Member),
    /// Its owner has a cell in it that is no member's.
    Owners(&'w Cell),
    /// Another member is in it, and goes too.
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

/// Whether the end of a member takes the allocation along in which it is.
pub(super) async fn takes_along(cx: &StepCx<'_>, member: &Member) -> Result<bool> {
    let Some(id) = member.allocation_id.filter(|_| member.allocation_made) else { return Ok(false) };
    let mut others = cx.store.member_in(id).await?;
    others.retain(|other| other.id != member.id);
    let cells = cx.store.cell_live_in(id).await?;
    Ok(matches!(whose(member, &others, &cells), Whose::Nobodys))
}
