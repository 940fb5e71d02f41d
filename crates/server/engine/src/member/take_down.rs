//! Have a member's cell destroyed, and see that nothing of it is left.

use futures::future::BoxFuture;
use muster_db::Result;
use muster_ids::TypedId as _;
use muster_model::member::{Member, MemberFailure};
use muster_model::operation::OperationState;
use serde_json::json;

use super::release::{is_released_by_parent, takes_along};
use super::subject::{refused, subject};
use crate::cell::DESTROY;
use crate::child::{self, Part};
use crate::definition::{Step, StepCx, Undo};
use crate::proof::cell_of;
use crate::{Act, Verdict, supersede};

pub(super) const TAKE_DOWN: Step = Step {
    name: "take_down",
    does: "has its cell destroyed, and sees that nothing of it is left",
    verifies: false,
    run,
    undo: Undo::None("what was destroyed is not made again behind its owner's back"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let member = subject(cx).await?;
        take_down(cx, &member).await
    })
}

/// Destroys the cell of a member.
pub(super) async fn take_down(cx: &StepCx<'_>, member: &Member) -> Result<Act> {
    let Some(cell) = cell_of(cx, member).await?.filter(|cell| !cell.state.is_final()) else {
        return Ok(Verdict::said("it has no cell").into());
    };
    if let Some(child) = child::find(cx, "destroy").await? {
        return Ok(match child.state {
            OperationState::Succeeded => Verdict::said("its cell is gone").into(),
            state if !state.is_final() => child::wait(cx, &child),
            _ => refused(MemberFailure::ProvisionFailed, child::why(&child)).into(),
        });
    }
    // A node that nobody hears from is not waited for where the whole allocation goes anyway: that looks for itself.
    let lost = cx.store.node_lookup(cell.node_id).await?.is_some_and(|node| node.unreachable_since.is_some());
    if lost && (is_released_by_parent(cx, member).await? || takes_along(cx, member).await?) {
        return Ok(
            Verdict::said("nobody hears from its node: its allocation's release takes it along").into()
        );
    }
    let under_way = cx.store.operation_open_on(cell.id.uuid()).await?.pop();
    let mut destroy = child::make(
        cx,
        "destroy",
        Part {
            definition: &DESTROY,
            subject_kind: "cell",
            subject_id: cell.id.uuid(),
            subject_name: cell.name.clone(),
            input: json!({}),
            deadline_at: cx.now + cx.timing.release,
        },
    );
    let (now, look, whole, world) = (cx.now, cx.timing.look, cx.operation.parent_id, cx.world.clone());
    Ok(Act::write(move |tx, _| {
        Box::pin(async move {
            // Others of the same whole may wait for nothing more than that this one was withdrawn.
            if let Some(whole) = whole {
                tx.operation_wake(whole, now).await?;
            }
            if let Some(old) = under_way {
                supersede(tx, &world, &old, &mut destroy, now).await?;
            }
            tx.operation_open(&destroy).await?;
            Ok(Verdict::Wait { reason: "its cell is being destroyed".to_owned(), until: now + look })
        })
    }))
}
