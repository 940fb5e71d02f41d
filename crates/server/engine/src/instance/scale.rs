//! Changing how many members an instance has: those that are wanted more are added, then those that are wanted no more removed.

use futures::future::BoxFuture;
use muster_db::Result;
use muster_model::operation::OperationState;

use super::grow::GROW;
use super::shrink::SHRINK;
use crate::Act;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, StepCx};
use crate::remainder::{Meant, listed, settle_members};

/// `instance.scale`.
pub const SCALE: Definition = Definition {
    kind: "instance.scale",
    steps: &[GROW, SHRINK],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle,
};

/// Where it is accepted in part, those whose turn never came are counted back.
fn settle<'a>(cx: &'a StepCx<'a>, state: OperationState) -> BoxFuture<'a, Result<Act>> {
    let mut meant = listed(&cx.operation.input["add"], Meant::Add);
    meant.extend(listed(&cx.operation.input["remove"], Meant::Remove));
    settle_members(cx, state, meant)
}
