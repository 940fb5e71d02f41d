//! Child operations: opened by a step of the parent, which waits for them.
//!
//! A child records what it was opened for (step, purpose and retry epoch), so that a step that runs twice opens it once, and
//! a retry of a blocked step opens a new one.

use jiff::Timestamp;
use muster_db::{OperationChild, Result, StoreError, Tx};
use muster_ids::OperationId;
use muster_model::event::Timeline;
use muster_model::operation::{Operation, OperationState};
use muster_model::operation_input::OperationInput;
use uuid::Uuid;

use crate::advance::at_step;
use crate::{Definition, OperationRequest, StepAction, StepCx, StepOutcome, Timing, accept, resume_blocked};

/// Parameters of a child operation.
pub(crate) struct ChildRequest<'a> {
    /// Kind of operation.
    pub(crate) definition: &'a Definition,
    /// Kind of its subject.
    pub(crate) subject_kind: &'static str,
    /// Id of the subject.
    pub(crate) subject_id: Uuid,
    /// Name of the subject.
    pub(crate) subject_name: String,
    /// The timelines that show its events, if they are not the parent's.
    pub(crate) timeline: Timeline,
    /// Input of the operation.
    pub(crate) input: OperationInput,
    /// Deadline of the operation.
    pub(crate) deadline_at: Timestamp,
}

fn spawn_key(cx: &StepCx<'_>, purpose: &str) -> String {
    let retry_epoch = cx.operation.input.retry_epoch;
    format!("{}/{purpose}/{retry_epoch}", cx.step)
}

/// Returns the child that this step opened for this purpose in this retry epoch, if any.
pub(crate) async fn find(cx: &StepCx<'_>, purpose: &str) -> Result<Option<OperationChild>> {
    let mine = spawn_key(cx, purpose);
    let children = cx.store.operation_children(cx.operation.id).await?;
    Ok(children.into_iter().rfind(|child| child.spawn_key == mine))
}

/// Returns the child that counts for this purpose: that of this retry epoch, or one of an earlier epoch that is still open
/// or succeeded.
pub(crate) async fn standing(cx: &StepCx<'_>, purpose: &str) -> Result<Option<OperationChild>> {
    let (mine, prefix) = (spawn_key(cx, purpose), format!("{}/{purpose}/", cx.step));
    let children = cx.store.operation_children(cx.operation.id).await?;
    let last = children.into_iter().rfind(|child| child.spawn_key.starts_with(&prefix));
    Ok(last.filter(|child| {
        child.spawn_key == mine || !child.state.is_final() || child.state == OperationState::Succeeded
    }))
}

/// Requests the cancellation of a child. Returns false if it has just ended.
pub(crate) async fn cancel(tx: &mut Tx, id: OperationId, now: Timestamp) -> Result<bool> {
    match tx.operation_cancel(id, now).await {
        Ok(()) => Ok(true),
        Err(StoreError::Gone(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reports whether this step ever opened a child for this purpose, in any retry epoch.
pub(crate) async fn ever(cx: &StepCx<'_>, purpose: &str) -> Result<bool> {
    let prefix = format!("{}/{purpose}/", cx.step);
    let children = cx.store.operation_children(cx.operation.id).await?;
    Ok(children.iter().any(|child| child.spawn_key.starts_with(&prefix)))
}

/// Builds the operation of a child; the caller stores it.
pub(crate) fn make(cx: &StepCx<'_>, purpose: &str, child: ChildRequest<'_>) -> Operation {
    let mut input = child.input;
    input.spawn_key = Some(spawn_key(cx, purpose));
    accept(
        child.definition,
        OperationRequest {
            id: cx.env.id::<OperationId>(),
            scope: cx.operation.scope(),
            subject_kind: child.subject_kind,
            subject_id: child.subject_id,
            subject_name: child.subject_name,
            exclusive_locks: vec![child.subject_id],
            shared_locks: Vec::new(),
            timeline: child.timeline.or(cx.operation.timeline),
            asked_by: cx.operation.asked_by.clone(),
            correlation_id: cx.operation.correlation_id.clone(),
            input,
            deadline_at: child.deadline_at,
            parent_id: Some(cx.operation.id),
            now: cx.now,
        },
    )
}

/// Waits for an open child. Its end wakes the parent; the periodic check is only a safeguard.
pub(crate) fn wait(cx: &StepCx<'_>, child: &OperationChild) -> StepAction {
    let says = child.message.as_deref().unwrap_or("it is in progress");
    let reason = match child.state {
        OperationState::Blocked => format!("{} ({}) is blocked: {says}", child.id, child.kind),
        _ => format!("{} ({}): {says}", child.id, child.kind),
    };
    StepOutcome::Wait { reason, until: cx.now + cx.timing.look }.into()
}

/// Explains why a child did not succeed.
pub(crate) fn why(child: &OperationChild) -> String {
    let says = child.message.as_deref().unwrap_or("it gave no reason");
    format!("{} ended as {}: {says}", child.kind, child.state)
}

/// Resumes a parent that was blocked at its deadline while waiting for this child: without that it would stay blocked.
pub(crate) async fn resume_parent(
    tx: &mut Tx,
    child: &Operation,
    timing: &Timing,
    now: Timestamp,
) -> Result<()> {
    let Some(parent) = child.parent_id else { return Ok(()) };
    let Some(parent) = tx.operation_now(parent).await? else { return Ok(()) };
    let late = parent.blocked.as_ref().is_some_and(|blocked| blocked.by_deadline);
    let step = child.input.spawn_key.as_deref().and_then(|named| named.split_once('/')).map(|(step, _)| step);
    if !late || step.is_none() || at_step(&parent) != step {
        return Ok(());
    }
    resume_blocked(tx, parent.id, timing, now).await.map(drop)
}
