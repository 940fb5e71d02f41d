//! Changes the number of an instance's members: first adds the missing ones, then removes the surplus.

use muster_db::Result;
use muster_model::operation::{OperationKind, OperationState};

use super::grow::GROW;
use super::shrink::SHRINK;
use crate::StepAction;
use crate::bulk_cleanup::{Intent, listed, settle_members};
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};

/// `instance.scale`.
pub const SCALE: Definition = Definition {
    kind: OperationKind::InstanceScale,
    steps: &[GROW, SHRINK],
    on_failure: OnFailure::Block,
    at_deadline: AtDeadline::Block,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    resolvable_by: "tenant",
    settle: |cx, state| Box::pin(settle(cx, state)),
};

/// When it is accepted as partial, the counts of members that were never started are reverted.
async fn settle(cx: &StepCx<'_>, state: OperationState) -> Result<StepAction> {
    let mut meant = listed(&cx.operation.input.add, Intent::Add);
    meant.extend(listed(&cx.operation.input.remove, Intent::Remove));
    settle_members(cx, state, meant).await
}
