//! Remove the members that an instance should have fewer of.

use futures::future::BoxFuture;
use muster_db::Result;
use muster_model::operation::Item;
use serde_json::json;

use super::subject::{named, subject};
use crate::definition::{Step, StepCx, Undo};
use crate::gather::{Gathered, Planned, TakesOver, failures, gather};
use crate::member::{REMOVE, manifest_of};
use crate::{Act, Verdict};

pub(super) const SHRINK: Step = Step {
    name: "shrink",
    does: "removes the members that are wanted no more",
    verifies: false,
    run,
    undo: Undo::None("what was removed is not brought back"),
};

fn run<'a>(cx: &'a StepCx<'a>) -> BoxFuture<'a, Result<Act>> {
    Box::pin(async move {
        let members = named(cx, "remove").await?;
        if members.is_empty() {
            return Ok(Verdict::said("none").into());
        }
        let manifest = manifest_of(cx, subject(cx).await?.app_version_id).await?;
        let paces = members
            .iter()
            .filter_map(|member| manifest.component(&member.component_key))
            .map(|component| component.drain_pace.at_once);
        let pace = usize::try_from(paces.min().unwrap_or(1)).unwrap_or(1).max(1);
        let planned: Vec<Planned> = members
            .into_iter()
            .map(|member| Planned { member, definition: &REMOVE, input: json!({"force": false}) })
            .collect();
        Ok(match gather(cx, planned, pace, TakesOver::Nothing).await? {
            Gathered::Pending(act) => among_all(cx, act),
            Gathered::Ended(items, done) if items.len() == done => {
                ended(cx, items, Verdict::said(format!("{done} are removed")))
            }
            Gathered::Ended(items, done) => {
                let message = format!("{done} of {} are removed; {}", items.len(), failures(&items));
                ended(cx, items, Verdict::Refused { reason: "some_failed", message })
            }
        })
    })
}

/// What one step says of its items, among all those of the operation.
pub(super) fn among_all(cx: &StepCx<'_>, act: Act) -> Act {
    let before = cx.operation.items.clone();
    match act {
        Act::Say(verdict) => Act::Say(verdict),
        Act::Write(write) => Act::write(move |tx, told| {
            Box::pin(async move {
                // Another part of the same act may have said something of others.
                let said = told.items.take();
                let verdict = write(tx, told).await?;
                told.items = match (said, told.items.take()) {
                    (said, Some(items)) => Some(put(said.unwrap_or(before), &items)),
                    (said, None) => said,
                };
                Ok(verdict)
            })
        }),
    }
}

/// The same at the end of a step.
pub(super) fn ended(cx: &StepCx<'_>, items: Vec<Item>, verdict: Verdict) -> Act {
    let before = cx.operation.items.clone();
    Act::write(move |_, told| {
        Box::pin(async move {
            told.items = Some(put(before, &items));
            Ok(verdict)
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
