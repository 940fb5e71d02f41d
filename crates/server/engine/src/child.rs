//! Operations as parts of another: opened by a step of it, and waited for there.
//!
//! A part says what it was opened for (step, purpose and round), so that a step that runs twice opens once, and one that is
//! tried again after it was parked opens again.

use jiff::Timestamp;
use muster_db::{OperationChild, Result, StoreError, Tx};
use muster_ids::OperationId;
use muster_model::operation::{Operation, OperationState};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::advance::at_step;
use crate::{Act, Definition, Open, StepCx, Timing, Verdict, definition, go_on, open};

/// What a part is opened with.
pub(crate) struct Part<'a> {
    /// What kind of operation.
    pub(crate) definition: &'a Definition,
    /// What it works on.
    pub(crate) subject_kind: &'static str,
    /// Its id.
    pub(crate) subject_id: Uuid,
    /// Its name.
    pub(crate) subject_name: String,
    /// What is asked for.
    pub(crate) input: Value,
    /// When it must have ended.
    pub(crate) deadline_at: Timestamp,
}

fn opened_for(cx: &StepCx<'_>, purpose: &str) -> String {
    let round = cx.operation.input["round"].as_i64().unwrap_or(0);
    format!("{}/{purpose}/{round}", cx.step)
}

/// The part that this step opened for this purpose, if it did.
pub(crate) async fn find(cx: &StepCx<'_>, purpose: &str) -> Result<Option<OperationChild>> {
    let mine = opened_for(cx, purpose);
    let children = cx.store.operation_children(cx.operation.id).await?;
    Ok(children.into_iter().rfind(|child| child.opened_for == mine))
}

/// The part that speaks for this purpose: this round's, or one of an earlier round that is under way or did what it was for.
pub(crate) async fn standing(cx: &StepCx<'_>, purpose: &str) -> Result<Option<OperationChild>> {
    let (mine, prefix) = (opened_for(cx, purpose), format!("{}/{purpose}/", cx.step));
    let children = cx.store.operation_children(cx.operation.id).await?;
    let last = children.into_iter().rfind(|child| child.opened_for.starts_with(&prefix));
    Ok(last.filter(|child| {
        child.opened_for == mine || !child.state.is_final() || child.state == OperationState::Succeeded
    }))
}

/// Asks for the end of a child. Returns false if it has ended at this very moment.
pub(crate) async fn cancel(tx: &mut Tx, id: OperationId, now: Timestamp) -> Result<bool> {
    match tx.operation_cancel(id, now).await {
        Ok(()) => Ok(true),
        Err(StoreError::Gone(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether this step ever opened a part for this purpose, in this round or an earlier one.
pub(crate) async fn ever(cx: &StepCx<'_>, purpose: &str) -> Result<bool> {
    let prefix = format!("{}/{purpose}/", cx.step);
    let children = cx.store.operation_children(cx.operation.id).await?;
    Ok(children.iter().any(|child| child.opened_for.starts_with(&prefix)))
}

/// The operation of a part; the caller writes it down.
pub(crate) fn make(cx: &StepCx<'_>, purpose: &str, part: Part<'_>) -> Operation {
    let mut input = part.input;
    input["for"] = json!(opened_for(cx, purpose));
    open(
        part.definition,
        Open {
            id: cx.world.id::<OperationId>(),
            scope: cx.operation.scope(),
            subject_kind: part.subject_kind,
            subject_id: part.subject_id,
            subject_name: part.subject_name,
            touches: vec![part.subject_id],
            shares: Vec::new(),
            asked_by: cx.operation.asked_by.clone(),
            correlation_id: cx.operation.correlation_id.clone(),
            input,
            deadline_at: part.deadline_at,
            parent_id: Some(cx.operation.id),
            now: cx.now,
        },
    )
}

/// What a step does while a part of it is under way. The end of a part wakes the whole, so looking is only for safety.
pub(crate) fn wait(cx: &StepCx<'_>, child: &OperationChild) -> Act {
    let says = child.says.as_deref().unwrap_or("it is under way");
    let reason = match child.state {
        OperationState::Parked => format!("{} ({}) is parked: {says}", child.id, child.kind),
        _ => format!("{} ({}): {says}", child.id, child.kind),
    };
    Verdict::Wait { reason, until: cx.now + cx.timing.look }.into()
}

/// Why a part did not do what it was for.
pub(crate) fn why(child: &OperationChild) -> String {
    let says = child.says.as_deref().unwrap_or("it gave no reason");
    format!("{} ended as {}: {says}", child.kind, child.state)
}

/// What waited for this part until its own time was over goes on with its end: nobody would look at it otherwise.
pub(crate) async fn take_up_whole(
    tx: &mut Tx,
    part: &Operation,
    timing: &Timing,
    now: Timestamp,
) -> Result<()> {
    let Some(whole) = part.parent_id else { return Ok(()) };
    let Some(whole) = tx.operation_now(whole).await? else { return Ok(()) };
    let late = whole.parked.as_ref().is_some_and(|parked| parked.by_deadline);
    let step = part.input["for"].as_str().and_then(|named| named.split_once('/')).map(|(step, _)| step);
    if !late || step.is_none() || at_step(&whole) != step {
        return Ok(());
    }
    let Some(mut whole) = tx.operation_seize(whole.id).await? else { return Ok(()) };
    if let Some(kind) = definition(&whole.kind)
        && go_on(&mut whole, kind, timing, now)
    {
        tx.operation_advance(&whole, now, None).await?;
    }
    Ok(())
}
