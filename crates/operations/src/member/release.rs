//! Give back the allocation that was made for a member, once nobody else is in it: wiped, and seen to be.

use futures::future::BoxFuture;
use muster_ids::TypedId as _;
use muster_model::member::{Member, MemberFailure};
use muster_model::operation::OperationState;
use muster_store::Result;
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
    let others = cx.store.member_in(id).await?;
    if others.iter().any(|other| other.id != member.id) {
        return Ok(Verdict::said("others are in it").into());
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
    let (now, look) = (cx.now, cx.timing.look);
    Ok(Act::write(move |tx, _| {
        Box::pin(async move {
            if let Some(old) = under_way {
                supersede(tx, &old, &mut release, now).await?;
            }
            tx.operation_open(&release).await?;
            Ok(Verdict::Wait { reason: "its allocation is being released".to_owned(), until: now + look })
        })
    }))
}
