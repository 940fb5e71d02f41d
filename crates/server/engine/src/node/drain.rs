//! Draining a node: keep new work away (−let it in again) · have members of apps replaced elsewhere (−ask what is under way to
//! end) · wait until nothing is left, or release it at the deadline if the drain is forced.
//!
//! Without force nothing is removed before its successor is active, and at the deadline the drain is blocked.

use futures::future::BoxFuture;
use muster_db::Result;
use muster_model::operation::OperationState;

use super::cordon::CORDON;
use super::empty::EMPTY;
use super::move_members::MOVE_MEMBERS;
use super::subject;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{Act, Verdict};

/// `node.drain`.
pub const DRAIN: Definition = Definition {
    kind: "node.drain",
    steps: &[CORDON, MOVE_MEMBERS, EMPTY],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Step,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Undo,
    unblock_by: "operator",
    settle,
};

/// A node that was accepted as it is, with something left on it, is not being emptied any more; nothing new gets in.
fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let node = subject(cx).await?;
        if state != OperationState::Partial || !node.draining {
            return Ok(Verdict::done().into());
        }
        let now = cx.now;
        Ok(Act::write(move |tx, _| {
            Box::pin(async move {
                tx.node_set_draining(node.id, false, true, now).await?;
                Ok(Verdict::done())
            })
        }))
    })
}
