//! Removes the surplus members of an instance.

use muster_db::Result;
use muster_model::operation::Item;
use muster_model::operation_input::OperationInput;

use super::subject::{members, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather};
use crate::member::{REMOVE, manifest_of};
use crate::{StepAction, StepOutcome};

pub(super) const SHRINK: Step = Step {
    name: "shrink",
    does: "remove the surplus members",
    verifies: false,
    run: |cx| Box::pin(run(cx)),
    undo: Undo::None("removed members are not restored"),
};

async fn run(cx: &StepCx<'_>) -> Result<StepAction> {
    let members = members(cx, &cx.operation.input.remove).await?;
    if members.is_empty() {
        return Ok(StepOutcome::with_message("none").into());
    }
    let manifest = manifest_of(cx, subject(cx).await?.app_version_id).await?;
    let paces = members
        .iter()
        .filter_map(|member| manifest.component(&member.component_key))
        .map(|component| component.drain_pace.at_once);
    let pace = usize::try_from(paces.min().unwrap_or(1)).unwrap_or(1).max(1);
    let planned: Vec<Planned> = members
        .into_iter()
        .map(|member| Planned { member, definition: &REMOVE, input: OperationInput::default() })
        .collect();
    Ok(match gather(cx, planned, pace, TakesOver::Nothing).await? {
        Gathered::Pending(act) => among_all(cx, act),
        Gathered::Ended(items, done) if items.len() == done => {
            ended(cx, items, StepOutcome::with_message(format!("{done} are removed")))
        }
        Gathered::Ended(items, done) => {
            let message = format!("{done} of {} are removed; {}", items.len(), failures(&items));
            ended(cx, items, StepOutcome::Refused { reason: "some_failed", message })
        }
    })
}

/// Merges a step's items into all items of the operation.
pub(super) fn among_all(cx: &StepCx<'_>, act: StepAction) -> StepAction {
    let before = cx.operation.items.clone();
    match act {
        StepAction::Return(outcome) => StepAction::Return(outcome),
        StepAction::Commit(write) => StepAction::commit(move |tx, effects| {
            Box::pin(async move {
                // Another part of the same action may have updated other items.
                let said = effects.items.take();
                let outcome = write(tx, effects).await?;
                effects.items = match (said, effects.items.take()) {
                    (said, Some(items)) => Some(put(said.unwrap_or(before), &items)),
                    (said, None) => said,
                };
                Ok(outcome)
            })
        }),
    }
}

/// Like [`among_all`], at the end of a step.
pub(super) fn ended(cx: &StepCx<'_>, items: Vec<Item>, outcome: StepOutcome) -> StepAction {
    let before = cx.operation.items.clone();
    StepAction::commit(move |_, effects| {
        Box::pin(async move {
            effects.items = Some(put(before, &items));
            Ok(outcome)
        })
    })
}

fn put(mut all: Vec<Item>, items: &[Item]) -> Vec<Item> {
    for now in items {
        match all.iter_mut().find(|item| item.id == now.id) {
            Some(item) => *item = now.clone(),
            None => all.push(now.clone()),
        }
    }
    all
}
