//! Drains a node: cordon it (undo: uncordon) · replace its members elsewhere (undo: cancel open replacements) · wait until
//! it is empty, or release the rest at the deadline if the drain is forced.
//!
//! Without force nothing is removed before its successor is active, and at the deadline the drain is blocked.

use muster_db::Result;
use muster_model::operation::{OperationKind, OperationState};

use super::cordon::CORDON;
use super::empty::EMPTY;
use super::move_members::MOVE_MEMBERS;
use super::subject;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::{StepAction, StepOutcome};

/// `node.drain`.
pub const DRAIN: Definition = Definition {
    kind: OperationKind::NodeDrain,
    steps: &[CORDON, MOVE_MEMBERS, EMPTY],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Step,
    cancellable: true,
    no_return: None,
    abandon: Abandon::Undo,
    resolvable_by: "operator",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// A drain accepted as partial stops draining the node, which stays cordoned.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let node = subject(cx).await?;
    if state != OperationState::Partial || !node.draining {
        return Ok(StepOutcome::done().into());
    }
    let now = cx.now;
    Ok(StepAction::commit(move |tx, _| {
        Box::pin(async move {
            tx.node_set_draining(node.id, false, true, now).await?;
            Ok(StepOutcome::done())
        })
    }))
}
